-- A new user's editor: nvim --headless -u NONE -i NONE -n -c "luafile newcomer.lua" -- FILE
-- Opens GRAPHLINT_FILE with the configuration of the documentation, says what is found, takes the first fix, saves.
local function out(text) io.stdout:write(text .. "\n") end

local function main()
  vim.o.swapfile = false
  vim.cmd("cd " .. vim.fn.fnamemodify(vim.env.GRAPHLINT_FILE, ":h"))
  dofile(vim.env.GRAPHLINT_SNIPPET)
  vim.cmd("edit " .. vim.env.GRAPHLINT_FILE)
  vim.bo.filetype = "python"
  local buf = vim.api.nvim_get_current_buf()
  assert(vim.wait(60000, function() return #vim.diagnostic.get(buf) > 0 end, 20), "nothing was found")
  vim.wait(3000) -- whatever else there is in files that are not open
  for _, d in ipairs(vim.diagnostic.get()) do
    out("SEEN " .. vim.fn.fnamemodify(vim.api.nvim_buf_get_name(d.bufnr), ":t") .. ":" .. (d.lnum + 1) .. " " .. d.code)
  end
  local d, client = vim.diagnostic.get(buf)[1], vim.lsp.get_clients()[1]
  vim.api.nvim_win_set_cursor(0, { d.lnum + 1, d.col })
  local params = vim.lsp.util.make_range_params(0, client.offset_encoding)
  params.context = { diagnostics = {} }
  local answer = vim.lsp.buf_request_sync(buf, "textDocument/codeAction", params, 20000)
  local action = answer[client.id].result[1]
  out("FIX " .. action.title)
  vim.lsp.util.apply_workspace_edit(action.edit, client.offset_encoding)
  assert(vim.wait(20000, function() return #vim.diagnostic.get() == 0 end, 20), "the fix did not help")
  vim.cmd("silent write")
  out("FIXED")
end

local fine, message = pcall(main)
if not fine then out("FAIL " .. tostring(message)) end
vim.cmd(fine and "qa!" or "cq!")
