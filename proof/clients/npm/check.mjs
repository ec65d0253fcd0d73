// Prints one line for each item that a client plays: "item N ok", or what was wrong. The numbers are those of docs/reference/openai-clients.md.
export function report() {
  let failed = 0
  return {
    async item(numbers, play) {
      let wrong = null
      try {
        wrong = await play()
      } catch (err) {
        wrong = err?.stack ?? String(err)
      }
      for (const n of numbers) console.log(wrong ? `item ${n} FAIL: ${String(wrong).replaceAll('\n', ' | ').slice(0, 600)}` : `item ${n} ok`)
      if (wrong) failed++
    },
    end() {
      process.exit(failed ? 1 : 0)
    },
  }
}
// want returns what is wrong with a value, null when nothing is.
export const want = (good, seen) => (good ? null : 'got ' + JSON.stringify(seen))
