// Package sample selects the next token from logits.
//
// A [Sampler] serves one generation. [Sampler.Sample] takes the model's logits and
// returns a token id. [Sampler.Accept] records the tokens of the prompt and of the
// answer, to which the penalties apply. Sample runs these steps in order:
//
//  1. penalties   lower the logits of repeated tokens
//  2. logit bias  adds a value per token; -Inf forbids a token
//  3. mask        forbids all tokens but those of [Sampler.Allow]
//  4. top-k       retains the k most likely tokens
//  5. typical     retains the tokens whose surprise is nearest to the entropy
//  6. top-p       retains the most likely tokens with a total probability of p
//  7. min-p       retains tokens at least min-p times as likely as the best one
//  8. temperature flattens or sharpens the remaining distribution
//  9. draw        selects a token with one random number for each
//
// The filters (steps 4 to 7) use the probabilities at temperature 1, so the temperature
// does not change which tokens remain. At temperature 0, Sample returns the most likely
// token after steps 1 to 3 and skips the filters.
//
// # Determinism
//
// The same parameters, seed, history and logits select the same token on every machine.
// Several rules ensure this. Equal logits are ordered by id. The package has its own
// exponential function and logarithm in float64 without fused operations, because those
// in the standard library differ between architectures in the last bit. Sums run in a
// fixed order. The random numbers are hashes of the seed, the position and the token.
//
// A position is the number of tokens that were accepted. Its random numbers are the same
// for every model, so a model that guesses the next token of another one, with similar
// logits, nearly always draws the same token: see [Sampler.Branch].
//
// # Stop strings
//
// A [StopMatcher] searches the generated text for stop strings. A stop string may start
// in the middle of one token and end in another. The matcher therefore retains text
// that may still become part of a stop string, so no emitted text has to be retracted.
//
// # Reading the code
//
// Begin with [Sampler.Sample] in sampler.go. draw.go implements step 9, filters.go implements steps 4 to 7,
// penalties.go steps 1 to 3.
package sample
