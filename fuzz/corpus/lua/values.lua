local encoding = require("encoding")
local fs = require("fs")
local utils = require("utils")
values = { a = cluster.handle, n = 1 + 2 }
for i = 1, 3 do values["k" .. i] = i end
values.t = encoding.yamlDecode(fs.read("values.yaml"))
valuesFiles = { "values.yaml" }
