import assert from 'node:assert/strict';
import { test } from 'node:test';
import OpenAI from 'openai';
import { base, beginning, model, question } from './server.mjs';

const client = new OpenAI({ baseURL: `${base}/v1`, apiKey: 'any', maxRetries: 0 });
const greedy = { model, temperature: 0, max_tokens: 4 };
const messages = [{ role: 'user', content: question }];

test('models', async () => {
  const ids = [];
  for await (const m of client.models.list()) ids.push(m.id);
  assert.ok(ids.includes(model));
  assert.equal((await client.models.retrieve(model)).object, 'model');
  await assert.rejects(client.models.retrieve('none'), OpenAI.NotFoundError);
});

test('chat', async () => {
  const answer = await client.chat.completions.create({ ...greedy, messages });
  assert.equal(answer.choices[0].message.content, beginning);
  assert.equal(answer.choices[0].finish_reason, 'length');
  assert.equal(answer.usage.completion_tokens, 4);
  assert.equal(answer.usage.total_tokens, answer.usage.prompt_tokens + 4);
});

test('chat, streamed', async () => {
  const stream = await client.chat.completions.create({ ...greedy, messages, stream: true, stream_options: { include_usage: true } });
  let text = '';
  let usage;
  for await (const chunk of stream) {
    text += chunk.choices[0]?.delta.content ?? '';
    usage ??= chunk.usage;
  }
  assert.equal(text, beginning);
  assert.equal(usage.completion_tokens, 4);
});

test('the helper for streams', async () => {
  const stream = client.chat.completions.stream({ ...greedy, messages });
  assert.equal(await stream.finalContent(), beginning);
  assert.equal((await stream.finalChatCompletion()).choices[0].finish_reason, 'length');
});

test('choices, seeds, stop strings and probabilities', async () => {
  const ask = (more) => client.chat.completions.create({ model, messages, max_tokens: 5, temperature: 1.2, ...more });
  const three = await ask({ seed: 40, n: 3 });
  assert.equal(three.choices.length, 3);
  assert.deepEqual((await ask({ seed: 41 })).choices[0].message, three.choices[1].message);
  const stopped = await ask({ temperature: 0, stop: [' lived'], logprobs: true, top_logprobs: 2 });
  assert.equal(stopped.choices[0].message.content, 'Once there');
  assert.equal(stopped.choices[0].finish_reason, 'stop');
  assert.equal(stopped.choices[0].logprobs.content[0].top_logprobs.length, 2);
});

test('a client that leaves', async () => {
  const stream = await client.chat.completions.create({ model, messages, temperature: 0, stream: true });
  for await (const chunk of stream) if (chunk.choices[0].delta.content) break; // the library aborts the request
  assert.equal((await client.chat.completions.create({ ...greedy, messages })).choices[0].message.content, beginning);
});

test('text completions', async () => {
  const answer = await client.completions.create({ ...greedy, prompt: 'Once upon a time', logprobs: 1 });
  assert.equal(answer.choices[0].text, ', there was a');
  assert.equal(answer.choices[0].logprobs.tokens.length, 4);
  const stream = await client.completions.create({ ...greedy, prompt: 'Once upon a time', stream: true });
  let text = '';
  for await (const part of stream) text += part.choices[0].text;
  assert.equal(text, ', there was a');
});

test('responses', async () => {
  const ask = { model, input: question, temperature: 0, max_output_tokens: 4 };
  const first = await client.responses.create({ ...ask, instructions: 'Be kind.' });
  assert.equal(typeof first.output_text, 'string');
  assert.equal(first.usage.output_tokens, 4);
  const plain = await client.responses.create(ask);
  assert.equal(plain.output_text, beginning);
  assert.equal(plain.incomplete_details.reason, 'max_output_tokens');
  const second = await client.responses.create({ ...ask, input: 'Go on.', previous_response_id: plain.id });
  assert.ok(second.usage.input_tokens > plain.usage.total_tokens);
  assert.equal((await client.responses.retrieve(plain.id)).output_text, beginning);
  await client.responses.delete(plain.id);
  await assert.rejects(client.responses.create({ ...ask, previous_response_id: plain.id }), (e) => e.code === 'previous_response_not_found');
});

test('responses, streamed', async () => {
  const stream = client.responses.stream({ model, input: 'Hi', temperature: 0 });
  let text = '';
  stream.on('response.output_text.delta', (e) => (text += e.delta));
  const whole = await stream.finalResponse();
  assert.equal(whole.status, 'completed');
  assert.ok(text.length > 0);
  assert.equal(whole.output_text, text);
});

test('errors', async () => {
  const wrong = async (body, kind, param) => {
    const failed = await client.chat.completions.create(body).then(() => assert.fail('it was accepted'), (e) => e);
    assert.ok(failed instanceof kind, String(failed));
    assert.equal(failed.param, param);
    assert.equal(failed.type, 'invalid_request_error');
  };
  await wrong({ model: 'none', messages }, OpenAI.NotFoundError, 'model');
  await wrong({ model, messages, temperature: 'hot' }, OpenAI.BadRequestError, 'temperature');
  await wrong({ model, messages: [{ role: 'user', content: [{ type: 'image_url', image_url: { url: 'data:,' } }] }] }, OpenAI.BadRequestError, 'messages[0].content[0].type');
  await assert.rejects(client.embeddings.create({ model, input: [] }), (e) => e.status === 400);
});

test('embeddings', async () => {
  const floats = await client.embeddings.create({ model, input: ['a fox', 'a bird'], encoding_format: 'float' });
  const packed = await client.embeddings.create({ model, input: 'a bird' }); // the client asks for base64 and decodes it
  assert.deepEqual(packed.data[0].embedding.map(Math.fround), floats.data[1].embedding.map(Math.fround));
  const short = await client.embeddings.create({ model, input: 'a bird', dimensions: 8 });
  assert.equal(short.data[0].embedding.length, 8);
});
