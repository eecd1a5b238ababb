{{ define "n" }}{{ .Service.name }}{{ end }}apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ include "n" . }}
data:
  host: {{ .Configuration.host | quote }}
