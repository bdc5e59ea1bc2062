-- Signed webhooks for wrk: 10 % repeat an earlier delivery, 1 % carry a wrong signature.
-- Arguments: the file of bodies (signature, tab, body a line) and a prefix that makes the deliveries' ids new.
local lines, count, prefix, total = {}, 0, "", 0

function init(args)
  for line in io.lines(args[1]) do
    local tab = string.find(line, "\t", 1, true)
    count = count + 1
    lines[count] = { string.sub(line, 1, tab - 1), string.sub(line, tab + 1) }
  end
  prefix = args[2]
end

function request()
  total = total + 1
  local id = total
  if total % 10 == 0 and total > 60 then id = total - 55 end
  -- A delivery has one body, and so has its repetition.
  local entry = lines[(id % count) + 1]
  local signature = entry[1]
  if total % 100 == 7 then signature = string.rep("0", 64) end
  return wrk.format("POST", nil, {
    ["Content-Type"] = "application/json",
    ["X-Demo-Signature"] = signature,
    ["X-Demo-Delivery"] = prefix .. "-" .. id,
  }, entry[2])
end

function done(summary, latency, requests)
  io.write(string.format(
    'RESULT {"requests": %d, "seconds": %.3f, "p50": %.3f, "p99": %.3f, "max": %.3f, "refused": %d, "broken": %d}\n',
    summary.requests, summary.duration / 1e6, latency:percentile(50) / 1e3, latency:percentile(99) / 1e3,
    latency.max / 1e3, summary.errors.status,
    summary.errors.connect + summary.errors.read + summary.errors.write + summary.errors.timeout))
end
