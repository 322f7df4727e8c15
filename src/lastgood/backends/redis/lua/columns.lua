-- Rows are MessagePack lists of columns; cmsgpack knows no byte strings, so the few columns that the
-- server has to look at are read here.

local WIDTHS = {[0xc4] = 1, [0xd9] = 1, [0xc5] = 2, [0xda] = 2, [0xc6] = 4, [0xdb] = 4}
local NUMBERS = {[0xcc] = 1, [0xcd] = 2, [0xce] = 4, [0xcf] = 8}
local SIGNED = {[0xd0] = 1, [0xd1] = 2, [0xd2] = 4, [0xd3] = 8}

-- The first `last` columns of a row; false if it is no row. A float is only skipped.
local function columns(text, last)
  if not text or #text < 3 then return false end
  local found, at = {}, byte(text, 1) == 0xdc and 4 or 2
  for index = 1, last do
    local kind = byte(text, at)
    at = at + 1
    if not kind then return false end
    local width = WIDTHS[kind]
    if kind < 0x80 then
      found[index] = kind
    elseif width then
      if at + width - 1 > #text then return false end
      local size = big(text, at, width)
      found[index] = sub(text, at + width, at + width + size - 1)
      at = at + width + size
    elseif NUMBERS[kind] then
      if at + NUMBERS[kind] - 1 > #text then return false end
      found[index] = big(text, at, NUMBERS[kind])
      at = at + NUMBERS[kind]
    elseif SIGNED[kind] then
      width = SIGNED[kind]
      if at + width - 1 > #text then return false end
      found[index] = big(text, at, width) - (byte(text, at) >= 128 and 256 ^ width or 0)
      at = at + width
    elseif kind == 0xcb then
      at = at + 8
    elseif kind >= 0xe0 then
      found[index] = kind - 256
    elseif kind >= 0xa0 and kind < 0xc0 then
      found[index] = sub(text, at, at + kind - 0xa1)
      at = at + kind - 0xa0
    elseif kind ~= 0xc0 then
      return false
    end
  end
  return found
end

