// Package sample turns logits into the next token.
//
// A [Sampler] is one generation's chooser. For every token it is given the
// model's logits and answers with an id; [Sampler.Accept] tells it what was
// said so far, prompt included, which the penalties look at. The steps run in
// this order, each on what the one before has left:
//
//  1. penalties   repeated tokens become less likely
//  2. logit bias  is added; -Inf forbids a token
//  3. top-k       the k most likely stay
//  4. typical     those nearest to the expected surprise stay
//  5. top-p       the most likely stay, until their mass reaches p
//  6. min-p       those at least min-p times as likely as the best stay
//  7. temperature flattens or sharpens what is left
//  8. draw        one random number decides
//
// The filters judge the distribution at temperature 1: which tokens are
// sensible does not depend on how adventurous the choice among them is. At
// temperature 0 the most likely token after steps 1 and 2 is taken, and the
// filters, which never remove that one, are skipped.
//
// # Determinism
//
// The same parameters, seed, history and logits give the same token on every
// machine. Equal logits are ordered by id. Every exponential is this package's
// own, in float64 and free of fused operations: the standard library's is
// assembly on some architectures and differs in the last bit. Sums run in a
// fixed order, the random numbers are those of a PCG (whose sequence
// math/rand/v2 specifies), and each token consumes exactly one of them.
//
// # Stop strings
//
// [StopMatcher] watches the text, not the tokens: a stop string may begin in
// the middle of one token and end in another. It holds back whatever may yet
// become a stop string, so that nothing is shown that has to be taken back.
package sample
