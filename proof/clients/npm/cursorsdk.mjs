// The vendor's own client in its local mode, against the address in CURSOR_BACKEND_URL. It says each of its arguments as one turn of one agent,
// and prints what came of it as a line of JSON. It cancels a turn that says Hang.
import { Agent } from '@cursor/sdk'

const ran = []
const numbers = { type: 'object', properties: { a: { type: 'number' }, b: { type: 'number' } }, required: ['a', 'b'] }
const agent = await Agent.create({
  apiKey: process.env.SIM_KEY,
  model: { id: 'composer-2' },
  tools: ['mcp'],
  local: {
    cwd: process.env.SIM_CWD,
    settingSources: [],
    customTools: {
      add: {
        description: 'Adds two numbers',
        inputSchema: numbers,
        execute: async ({ a, b }) => {
          ran.push(`add ${a} ${b}`)
          return String(a + b)
        },
      },
      fail: {
        description: 'Fails',
        inputSchema: { type: 'object', properties: {} },
        execute: async () => {
          throw new Error('it broke')
        },
      },
    },
  },
})
for (const text of process.argv.slice(2)) {
  let said = ''
  let thought = ''
  let stopped
  const turn = await agent.send(text, {
    onDelta: ({ update }) => {
      if (update.type === 'text-delta') said += update.text
      if (update.type === 'thinking-delta') thought += update.text
      if (update.type === 'text-delta' && text === 'Hang') stopped ??= turn.cancel()
    },
  })
  const result = await turn.wait()
  await stopped
  console.log(JSON.stringify({ status: result.status, said, thought, ran: ran.splice(0) }))
}
process.exit(0)
