// Answers within schemas at temperature 1, which another program validates. LLMRUN_ANSWERS is how many there are, LLMRUN_SEED the
// first seed, and LLMRUN_AT_ONCE how many programs run at the same time. An answer that fails is repeated with the command that is printed.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import Ajv2020 from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
import { question } from './server.mjs';

const program = process.env.LLMRUN_PROGRAM;
const answers = Number(process.env.LLMRUN_ANSWERS ?? 55);
const firstSeed = Number(process.env.LLMRUN_SEED ?? 1);
const atOnce = Number(process.env.LLMRUN_AT_ONCE ?? 2);
const schemas = JSON.parse(readFileSync(process.env.LLMRUN_SCHEMAS));
const run = promisify(execFile);

// The numbers of tokens that answers may have beyond those of the shortest, in turn: none, a few, and as many as they want.
const spare = [0, 200, 1, 3, 8, 20, 60];

test(`${answers} answers within ${schemas.length} schemas, from seed ${firstSeed}`, async () => {
  const directory = mkdtempSync(join(tmpdir(), 'llmrun-schemas-'));
  const all = schemas.map(({ name, schema }, i) => {
    const file = join(directory, `${i}.json`);
    writeFileSync(file, JSON.stringify(schema));
    const ajv = new Ajv2020({ strict: false, allErrors: true });
    addFormats(ajv);
    return { name, file, validate: ajv.compile(schema) };
  });
  const count = { answers: 0, tokens: 0, passes: 0, tight: 0, cut: 0 };

  const generate = async (schema, tokens, seed) => {
    const args = ['run', '--schema', schema.file, '-p', question, '-n', String(tokens), '--temp', '1', '--seed', String(seed), '--threads', '1', '--json', '-q'];
    const say = `${schema.name}: llmrun ${args.join(' ')}`;
    const { stdout } = await run(program, args, { maxBuffer: 1 << 24 });
    const got = JSON.parse(stdout);
    assert.ok(got.passes <= got.generated_tokens, `${say}: ${got.passes} passes for ${got.generated_tokens} tokens`);
    assert.ok(got.generated_tokens <= tokens, `${say}: ${got.generated_tokens} tokens`);
    return { got, say };
  };
  // One answer may have no tokens to spare, or some; the number comes from a run whose answer is cut at its first token.
  const one = async (i) => {
    const schema = all[i % all.length];
    const seed = firstSeed + i;
    if (schema.shortest === undefined) {
      const { got, say } = await generate(schema, 1, seed);
      schema.shortest = got.shortest_tokens;
      assert.equal(got.stop_reason, schema.shortest > 1 ? 'length' : 'eos', say);
      count.cut += schema.shortest > 1;
    }
    const more = spare[Math.floor(i / all.length + i) % spare.length];
    const { got, say } = await generate(schema, schema.shortest + more, seed);
    assert.equal(got.stop_reason, 'eos', `${say}: ${got.text}`);
    assert.ok(schema.validate(JSON.parse(got.text)), `${say}: ${got.text}: ${JSON.stringify(schema.validate.errors)}`);
    count.answers++;
    count.tokens += got.generated_tokens;
    count.passes += got.passes;
    count.tight += more === 0;
  };
  try {
    let next = 0;
    const work = async () => {
      while (next < answers) await one(next++);
    };
    await Promise.all(Array.from({ length: atOnce }, work));
  } finally {
    rmSync(directory, { recursive: true });
  }
  console.log(`${count.answers} answers are valid, ${count.tight} of them with no token to spare: ${count.tokens} tokens in ${count.passes} passes; ${count.cut} answers of one token were cut`);
  assert.equal(count.answers, answers);
});
