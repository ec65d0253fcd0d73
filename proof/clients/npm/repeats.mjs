// A library asks one question at each address, and repeats what it repeats by itself: node repeats.mjs LIBRARY QUESTION TOKEN URL...
const [library, question, apiKey, ...urls] = process.argv.slice(2)

const askers = {
  async openai() {
    const { default: OpenAI } = await import('openai')
    return baseURL => new OpenAI({ baseURL, apiKey, maxRetries: 1 }).chat.completions.create({ model: 'scripted', messages: [{ role: 'user', content: question }] })
  },
  async aisdk() {
    const { createOpenAICompatible } = await import('@ai-sdk/openai-compatible')
    const { generateText } = await import('ai')
    return baseURL => generateText({ model: createOpenAICompatible({ name: 'drawbridge', baseURL, apiKey })('scripted'), prompt: question, maxRetries: 1 })
  },
  async langchain() {
    const { ChatOpenAI } = await import('@langchain/openai')
    return baseURL => new ChatOpenAI({ model: 'scripted', apiKey, configuration: { baseURL }, maxRetries: 1 }).invoke(question)
  },
}

const ask = await askers[library]()
for (const one of await Promise.allSettled(urls.map(ask))) {
  if (one.status === 'fulfilled') throw new Error('an error passes for an answer: ' + JSON.stringify(one.value))
}
