import { createTheme } from '@mantine/core';

export const theme = createTheme({
  fontFamily: 'system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "DejaVu Sans", sans-serif',
  fontFamilyMonospace: 'ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace',
  fontSizes: { xs: '12px', sm: '13px', md: '14px', lg: '18px', xl: '22px' },
  lineHeights: { xs: '16px', sm: '20px', md: '20px', lg: '24px', xl: '28px' },
  spacing: { xs: '4px', sm: '8px', md: '12px', lg: '16px', xl: '24px' },
  // The library's greys of the dark, in the hue of the panels and lines of theme.css: what lies above a page is of one piece with it.
  colors: {
    dark: ['#c9ced4', '#b6bdc5', '#98a1aa', '#8a939c', '#3f4750', '#373e47', '#282e36', '#1d2126', '#191d21', '#111417'],
  },
  defaultRadius: 4,
  primaryShade: { light: 8, dark: 4 },
  autoContrast: true,
  headings: {
    fontWeight: '600',
    sizes: {
      h1: { fontSize: '22px', lineHeight: '28px' },
      h2: { fontSize: '14px', lineHeight: '20px' },
      h3: { fontSize: '13px', lineHeight: '20px' },
    },
  },
  components: {
    // One shade in both schemes: the library chooses white or black text for that of the light one.
    Button: { defaultProps: { size: 'xs', color: 'blue.8' } },
    TextInput: { defaultProps: { size: 'xs' } },
    Select: { defaultProps: { size: 'xs' } },
    Anchor: { defaultProps: { inherit: true } },
    Modal: { defaultProps: { closeButtonProps: { 'aria-label': 'Close' } } },
    Notification: { defaultProps: { closeButtonProps: { 'aria-label': 'Dismiss' } } },
  },
});
