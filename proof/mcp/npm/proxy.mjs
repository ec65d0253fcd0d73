// The suite cannot send a token. This stands in front of the door, on loopback, and adds it; the names of this port in
// Host and Origin become those of the door's, because the door takes no other. Everything else passes as it is, so that
// what the suite sends wrong arrives wrong.
import { createServer, request } from 'node:http';

/** Starts a proxy for http://127.0.0.1:port and returns its address and what ends it. */
export async function bearerProxy(port, token) {
  const server = createServer((req, res) => {
    const own = server.address().port;
    const headers = [];
    for (let i = 0; i < req.rawHeaders.length; i += 2) {
      let [name, value] = [req.rawHeaders[i], req.rawHeaders[i + 1]];
      if (/^(host|origin)$/i.test(name)) value = value.replace(new RegExp(`:${own}$`), `:${port}`);
      headers.push(name, value);
    }
    headers.push('Authorization', `Bearer ${token}`);
    const onward = request({ host: '127.0.0.1', port, method: req.method, path: req.url, headers, setHost: false }, (answer) => {
      res.writeHead(answer.statusCode, answer.statusMessage, answer.rawHeaders);
      res.flushHeaders(); // a stream may say nothing for long
      answer.pipe(res);
      answer.once('error', () => res.destroy());
    });
    onward.once('error', () => res.destroy());
    res.once('close', () => onward.destroy());
    req.pipe(onward);
  });
  await new Promise((done) => server.listen(0, '127.0.0.1', done));
  return {
    url: `http://localhost:${server.address().port}`,
    close: () => new Promise((done) => {
      server.close(done);
      server.closeAllConnections();
    }),
  };
}
