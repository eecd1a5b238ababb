import type { CodegenConfig } from '@graphql-codegen/cli';

/** Types and documents from the committed schema. The result is not committed: `npm run gen` makes it, before each build. */
const config: CodegenConfig = {
  schema: '../docs/reference/schema.graphql',
  documents: ['src/**/*.{ts,tsx}', '!src/generated/**'],
  generates: {
    'src/generated/': {
      preset: 'client',
      presetConfig: { fragmentMasking: false },
      config: {
        documentMode: 'string',
        enumsAsTypes: true,
        useTypeImports: true,
        scalars: { DateTime: 'string', Map: 'unknown', ID: 'string' },
      },
    },
  },
};
export default config;
