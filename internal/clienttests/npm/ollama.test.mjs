import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Ollama } from 'ollama';
import { base, beginning, model, question } from './server.mjs';

const client = new Ollama({ host: base });
const options = { temperature: 0, num_predict: 4 };
const messages = [{ role: 'user', content: question }];

test('listings', async () => {
  assert.match((await client.version()).version, /^\d+\.\d+\.\d+/);
  const { models } = await client.list();
  const listed = models.find((m) => m.name === model);
  assert.ok(listed.size > 0 && listed.digest && listed.details.family);
  const shown = await client.show({ model });
  assert.ok(shown.template.includes('messages'));
  assert.ok(shown.license && shown.parameters && shown.modelfile);
  assert.deepEqual(shown.capabilities[0], 'completion');
});

test('chat', async () => {
  const answer = await client.chat({ model, messages, options });
  assert.equal(answer.message.content, beginning);
  assert.equal(answer.done_reason, 'length');
  assert.equal(answer.eval_count, 4);
  for (const field of ['total_duration', 'load_duration', 'prompt_eval_duration', 'eval_duration', 'prompt_eval_count']) assert.ok(answer[field] > 0, field);
  let text = '';
  for await (const part of await client.chat({ model, messages, options, stream: true })) text += part.message.content;
  assert.equal(text, beginning);
});

test('generate, and a conversation that goes on', async () => {
  const first = await client.generate({ model, prompt: question, options });
  assert.equal(first.response, beginning);
  const second = await client.generate({ model, prompt: 'Go on.', context: first.context, options });
  assert.deepEqual(second.context.slice(0, first.context.length), first.context);
  let text = '';
  for await (const part of await client.generate({ model, prompt: 'Once upon a time', raw: true, options, stream: true })) text += part.response;
  assert.equal(text, ', there was a');
});

test('an answer that is aborted', async () => {
  const stream = await client.chat({ model, messages, stream: true, options: { temperature: 0 } });
  await assert.rejects(async () => {
    for await (const part of stream) if (part.message.content) stream.abort();
  }, { name: 'AbortError' });
});

test('models are opened and closed', async () => {
  await client.generate({ model, prompt: '', keep_alive: '10m' });
  assert.equal((await client.ps()).models[0].name, model);
  await client.generate({ model, prompt: '', keep_alive: 0 });
  assert.equal((await client.ps()).models.length, 0);
});

test('copies', async () => {
  await client.copy({ source: model, destination: 'copy:1b' });
  assert.equal((await client.chat({ model: 'copy:1b', messages, options })).message.content, beginning);
  await client.delete({ model: 'copy:1b' });
  await assert.rejects(client.show({ model: 'copy:1b' }), /no such model/);
  await assert.rejects(client.delete({ model }), /given to the server with its file/);
});

test('errors', async () => {
  await assert.rejects(client.chat({ model: 'none', messages }), (e) => e.status_code === 404 && /no such model/.test(e.message));
  await assert.rejects(client.chat({ model, messages: [{ role: 'user', content: 'x', images: ['AAAA'] }] }), /images is not supported/);
  await assert.rejects(client.embed({ model: 'none', input: 'x' }), (e) => e.status_code === 404);
});

test('embeddings', async () => {
  const { embeddings, prompt_eval_count } = await client.embed({ model, input: ['a fox', 'a bird'] });
  assert.equal(embeddings.length, 2);
  assert.ok(prompt_eval_count > 0);
  const raw = (await client.embeddings({ model, prompt: 'a bird' })).embedding; // of the length that the model gives it
  const length = Math.hypot(...raw);
  raw.forEach((x, i) => assert.ok(Math.abs(x / length - embeddings[1][i]) < 1e-6));
  assert.equal(raw.length, embeddings[1].length);
});
