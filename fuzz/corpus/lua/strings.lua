local s = string.rep("ab", 10)
values = { a = s:gsub("(a)(b)", "%2%1"), b = s:find("b+a"), c = ("%5.2f|%q|%s"):format(1.5, "x", nil) }
for w in s:gmatch("%a%a") do values[w] = #w end
local ok, e = pcall(function() error({1}) end)
