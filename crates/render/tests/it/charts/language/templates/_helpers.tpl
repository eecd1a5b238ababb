{{- define "who" -}}
{{ .name | default "nobody" }}
{{- end -}}
{{ define "loop" }}{{ if gt (int .) 0 }}{{ . }}{{ template "loop" (sub . 1) }}{{ end }}{{ end }}
