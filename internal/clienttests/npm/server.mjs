// The server under test, and what the tests of all clients need.
export const base = process.env.LLMRUN_URL;
export const model = 'llmrun';
export const question = 'Tell me a story about a fox.';
export const beginning = 'Once there lived a'; // of the bundled model's most likely answer, in 4 tokens
