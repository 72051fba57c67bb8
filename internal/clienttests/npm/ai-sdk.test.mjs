import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { generateText, streamText } from 'ai';
import { base, beginning, model, question } from './server.mjs';

const provider = createOpenAICompatible({ name: 'llmrun', baseURL: `${base}/v1`, includeUsage: true });
const request = { model: provider(model), prompt: question, temperature: 0, maxOutputTokens: 4, maxRetries: 0 };

test('generateText', async () => {
  const answer = await generateText(request);
  assert.equal(answer.text, beginning);
  assert.equal(answer.finishReason, 'length');
  assert.equal(answer.usage.outputTokens, 4);
});

test('streamText', async () => {
  const answer = streamText(request);
  let text = '';
  for await (const part of answer.textStream) text += part;
  assert.equal(text, beginning);
  assert.equal(await answer.finishReason, 'length');
  assert.equal((await answer.usage).outputTokens, 4);
});

test('a completion model', async () => {
  const answer = await generateText({ ...request, model: provider.completionModel(model), prompt: 'Once upon a time' });
  assert.equal(typeof answer.text, 'string');
  assert.equal(answer.usage.outputTokens, 4);
});

test('errors', async () => {
  await assert.rejects(generateText({ ...request, model: provider('none') }), (e) => e.statusCode === 404 && /no such model/.test(e.message));
});
