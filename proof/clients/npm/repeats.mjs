// A library asks each question once, and repeats what it repeats by itself: node repeats.mjs LIBRARY URL TOKEN QUESTION...
// Who answers counts how often each question came.
const [library, baseURL, apiKey, ...questions] = process.argv.slice(2)

async function asker() {
  switch (library) {
    case 'openai': {
      const { default: OpenAI } = await import('openai')
      const client = new OpenAI({ baseURL, apiKey, maxRetries: 1 })
      return content => client.chat.completions.create({ model: 'scripted', messages: [{ role: 'user', content }] })
    }
    case 'aisdk': {
      const { createOpenAICompatible } = await import('@ai-sdk/openai-compatible')
      const { generateText } = await import('ai')
      const model = createOpenAICompatible({ name: 'drawbridge', baseURL, apiKey })('scripted')
      return prompt => generateText({ model, prompt, maxRetries: 1 })
    }
    case 'langchain': {
      const { ChatOpenAI } = await import('@langchain/openai')
      const model = new ChatOpenAI({ model: 'scripted', apiKey, configuration: { baseURL }, maxRetries: 1 })
      return question => model.invoke(question)
    }
  }
  throw new Error('no library is called ' + library)
}

const ask = await asker()
for (const one of await Promise.allSettled(questions.map(ask))) {
  if (one.status === 'fulfilled') throw new Error('an error passes for an answer: ' + JSON.stringify(one.value))
}
