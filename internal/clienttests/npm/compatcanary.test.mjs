import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { base, model } from './server.mjs';

const scanner = fileURLToPath(import.meta.resolve('compatcanary')).replace('index.js', 'cli.js');

test('compatcanary', async () => {
  const args = [scanner, 'scan', '--base-url', `${base}/v1`, '--model', model, '--format', 'json', '--fail-on', 'never'];
  const report = await new Promise((done, failed) => {
    execFile(process.execPath, args, (error, out) => (error ? failed(error) : done(JSON.parse(out))));
  });
  const passed = report.results.filter((r) => r.status === 'pass').map((r) => r.id);
  assert.deepEqual(passed, ['models.list', 'chat.basic', 'chat.streaming', 'chat.tool_call', 'chat.structured_output', 'responses.basic', 'responses.streaming']);
});
