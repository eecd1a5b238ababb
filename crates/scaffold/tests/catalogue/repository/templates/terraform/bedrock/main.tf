resource "aws_iam_role" "{{ context.team | snakecase }}_bedrock" {
  name = "{{ context.team }}-bedrock"
}
{% for model in context.models %}
resource "aws_iam_role_policy" "{{ context.team | snakecase }}_{{ forloop.index }}" {
  name = "{{ model }}"
}
{% endfor %}
