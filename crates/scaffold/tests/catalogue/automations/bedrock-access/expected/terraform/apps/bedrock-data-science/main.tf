resource "aws_iam_role" "data_science_bedrock" {
  name = "data-science-bedrock"
}

resource "aws_iam_role_policy" "data_science_1" {
  name = "small"
}

resource "aws_iam_role_policy" "data_science_2" {
  name = "large"
}

