// Package recurrent holds what a sequence keeps besides keys and values: the recurrent state of layers whose memory
// does not grow with the text, and the arithmetic that advances it.
//
// Every such layer convolves some channels over the last few tokens. Its state is the inputs of those tokens. Gated
// delta nets and Mamba-2 also have a matrix for each head, which every token decays and adds to.
//
// The state advances token by token in one fixed order, whatever the size of a pass. So its bits do not depend on
// chunks, guesses, forks, or on what was saved and restored.
//
// A [State] has three copies of what all layers keep. A pass reads the first and writes the second, and Commit swaps
// them; a pass that fails or is cancelled changes nothing. The third is the mark: the state at the last whole page,
// which is what a saved sequence continues from. A pass whose last tokens may be rejected records its inputs, and
// Rewind advances the state again over those that stay.
package recurrent
