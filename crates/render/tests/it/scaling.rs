//! What a render costs grows with what it does, and no faster: counted in steps and bytes, not in time.

use plural_render::helm::Limits;

use crate::charts::{chart_of, run};

/// A chart whose template does something `times` times.
fn text_of(body: &str, times: usize) -> String {
    format!(
        "{{{{- define \"item\" }}}}{{{{ .Release.Name }}}}-{{{{ .Chart.Name }}}}\n{{{{ end -}}}}\n\
         list: |\n{{{{- range until {times} }}}}\n  {body}\n{{{{- end }}}}\n"
    )
}

/// The least limit with which the chart renders.
fn least(text: &str, limits: impl Fn(u64) -> Limits) -> u64 {
    let chart =
        chart_of(&[("Chart.yaml", "apiVersion: v2\nname: c\nversion: 1.0.0\n"), ("templates/t.yaml", text)])
            .unwrap();
    let (mut low, mut high) = (0, 1 << 30);
    while low < high {
        let middle = u64::midpoint(low, high);
        if run(&chart, limits(middle)).is_ok() {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    assert!(low < 1 << 30, "does not render");
    low
}

#[test]
fn include_and_tpl_cost_as_much_the_last_time_as_the_first() {
    for body in [
        "{{ include \"item\" $ | trim }}",
        "{{ tpl \"{{ .Release.Name }}\" $ }}",
        "{{ tpl \"{{ include \\\"item\\\" . }}\" $ | trim }}",
        "{{ tpl (printf \"{{ .Chart.Name }}-%d\" .) $ }}",
        "{{ $list := list . | append (list 1 2) }}{{ toYaml $list | nindent 4 }}",
        "{{ template \"item\" $ }}",
    ] {
        let whole = Limits::default();
        for (what, limits) in [
            ("steps", (&|fuel| Limits { fuel, ..whole }) as &dyn Fn(u64) -> Limits),
            ("bytes", &|bytes| Limits { bytes, ..whole }),
        ] {
            let few = least(&text_of(body, 200), limits);
            let many = least(&text_of(body, 800), limits);
            // Four times as much, and a little for longer numbers; not sixteen times.
            assert!(many <= 5 * few, "{body}: {few} {what} for 200, {many} for 800");
        }
    }
}
