// What the test of the page needs: llmrun on a port of its own, a proxy before it, and Chromium. The proxy keeps its
// address when the server is started again, notes every request with its bytes, and can hold an answer back or replace it.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import http from 'node:http';
import { createInterface } from 'node:readline';
import puppeteer from 'puppeteer-core';

const program = process.env.LLMRUN_PROGRAM;
export const chromium = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'].find((path) => existsSync(path));

// startServer runs llmrun, and returns its address and a function that ends it.
export async function startServer(args, env = {}) {
  const child = spawn(program, ['serve', '--listen', '127.0.0.1:0', ...args], { stdio: ['ignore', 'ignore', 'pipe'], env: { ...process.env, ...env } });
  const lines = [];
  const address = await new Promise((resolve, reject) => {
    createInterface({ input: child.stderr }).on('line', (line) => {
      lines.push(line);
      const found = /serving on (\S+)/.exec(line);
      if (found) resolve(found[1]);
    });
    child.on('exit', (status) => reject(new Error(`llmrun ended with status ${status}:\n${lines.join('\n')}`)));
  });
  return {
    address, lines,
    async stop() {
      if (child.exitCode !== null) return;
      child.kill('SIGTERM');
      await once(child, 'exit');
    },
  };
}

// startProxy passes requests on to proxy.target.
export async function startProxy() {
  const proxy = {
    target: '', requests: [], bytes: 0, // bytes of all answers on the wire
    holdAfter: Infinity, // events of an answer that are passed on; the rest comes never
    replace: undefined, // (url) => an answer of text/event-stream
  };
  const server = http.createServer((request, response) => {
    const entry = { method: request.method, url: request.url, body: '' };
    proxy.requests.push(entry);
    request.on('data', (part) => { entry.body += part; });
    const replaced = proxy.replace?.(request.url);
    if (replaced !== undefined) {
      response.writeHead(200, { 'Content-Type': 'text/event-stream' });
      response.end(replaced);
      return;
    }
    const { hostname, port } = new URL(proxy.target);
    const onward = http.request({ hostname, port, method: request.method, path: request.url, headers: request.headers }, (answer) => {
      response.writeHead(answer.statusCode, answer.rawHeaders);
      proxy.bytes += answer.rawHeaders.join('').length + 20;
      let events = 0;
      answer.on('data', (part) => {
        proxy.bytes += part.length;
        const isEvents = answer.headers['content-type'] === 'text/event-stream';
        if (isEvents && ++events > proxy.holdAfter) answer.pause();
        else response.write(part);
      });
      answer.on('end', () => response.end());
      answer.on('error', () => response.destroy());
    });
    onward.on('error', () => response.destroy());
    response.on('close', () => onward.destroy()); // the server learns that the browser has left
    request.pipe(onward);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  proxy.url = `http://127.0.0.1:${server.address().port}/`;
  proxy.stop = () => { server.closeAllConnections(); server.close(); };
  return proxy;
}

export const startBrowser = () => puppeteer.launch({
  executablePath: chromium,
  // It runs as root in containers, where its sandbox does not work.
  args: ['--no-sandbox', '--disable-dev-shm-usage', '--disable-gpu', '--hide-scrollbars', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'],
});
