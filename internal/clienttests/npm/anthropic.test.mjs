import assert from 'node:assert/strict';
import { test } from 'node:test';
import Anthropic from '@anthropic-ai/sdk';
import { base, beginning, model, question } from './server.mjs';

const client = new Anthropic({ baseURL: base, apiKey: 'any', maxRetries: 0 });
const request = { model, max_tokens: 4, temperature: 0, messages: [{ role: 'user', content: question }] };

test('messages', async () => {
  const answer = await client.messages.create(request);
  assert.deepEqual(answer.content, [{ type: 'text', text: beginning }]);
  assert.equal(answer.stop_reason, 'max_tokens');
  assert.equal(answer.usage.output_tokens, 4);
  const counted = await client.messages.countTokens({ model, messages: request.messages });
  assert.equal(counted.input_tokens, answer.usage.input_tokens + answer.usage.cache_read_input_tokens);
  const stopped = await client.messages.create({ ...request, system: 'Be kind.', max_tokens: 200, stop_sequences: ['.'] });
  assert.equal(stopped.stop_sequence, '.');
});

test('messages, streamed', async () => {
  const stream = client.messages.stream(request);
  let text = '';
  stream.on('text', (delta) => (text += delta));
  const whole = await stream.finalMessage();
  assert.equal(text, beginning);
  assert.equal(whole.content[0].text, beginning);
  assert.equal(whole.usage.output_tokens, 4);
  assert.ok(whole.usage.input_tokens + whole.usage.cache_read_input_tokens > 0);
});

test('errors', async () => {
  await assert.rejects(client.messages.create({ ...request, model: 'none' }), Anthropic.NotFoundError);
  const image = [{ role: 'user', content: [{ type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'AAAA' } }] }];
  await assert.rejects(client.messages.create({ ...request, messages: image }), /the models read text/);
});
