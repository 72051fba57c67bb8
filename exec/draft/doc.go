// Package draft guesses the next tokens of a text, so that one pass of a model can verify several
// at once. Guesses never change a text: the model computes what follows each of them, and those behind
// the first wrong one are dropped. They only change how many tokens a pass gives.
//
// A [Drafter] makes the guesses of a sequence. [Lookup] guesses that a text goes on as it went on before, where
// its last tokens occurred already; it finds them in an [Automaton]. Drafters decide how many guesses pay, from
// what was accepted lately and what passes take: see [Passes].
package draft
