local t = setmetatable({3, 1, 2}, {__index = function(t, k) return k end, __len = function() return 9 end})
table.sort(t, function(a, b) return a < b end)
values = { t = t, s = table.concat(t, ","), u = select("#", unpack(t)) }
