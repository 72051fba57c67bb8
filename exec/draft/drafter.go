package draft

import "context"

// Drafter guesses the tokens of a sequence. One goroutine at a time may use it. It allocates all memory
// when it is made, and none later.
type Drafter interface {
	// Name is the drafter's name in statistics.
	Name() string
	// Begin prepares for an answer behind ids, the tokens of the sequence up to the prompt's last one.
	// before are the tokens that the sequence had before its new prompt.
	Begin(before, ids []int32) error
	// Accepted records that the sequence goes on with a token.
	Accepted(id int32)
	// Draft appends guesses of the tokens behind the last accepted one to dst. The target model has not
	// processed that token yet. On an error the pass has no guesses, unless ctx has ended.
	Draft(ctx context.Context, dst []int32, r *Request) ([]int32, error)
	// Verified records that of the last Draft's guesses the pass verified a number, and that the first
	// right ones of them were right.
	Verified(guesses, right int)
	// Close frees the memory.
	Close()
}

// Brancher is a Drafter that may give Request.Branches.
type Brancher interface {
	Drafter
	// BranchKept records that the answer went on with a branch, -1 for none, and how many more of its guesses were right
	// than of those of Draft.
	BranchKept(branch, more int)
}

// Expecter is a Drafter that says how many tokens per second it is expected to give.
type Expecter interface {
	Drafter
	Expected(r *Request) float64
}

// Second is the second choice beside a guess.
type Second struct {
	ID   int32
	Lead float64 // of the guess; the smaller it is, the more often the second choice is right
}

// CommonPrefix returns how many tokens two texts have in common at their beginning.
func CommonPrefix(a, b []int32) (n int) {
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// Request is what guesses are wanted for.
type Request struct {
	// Most is the most guesses that the pass can hold and the answer can use; at least 1.
	Most int
	// Always asks for as many guesses as there are. Otherwise a drafter makes only those that
	// are expected to give more tokens per second, and none where none pays.
	Always bool
	// MostBranches is the most branches that the pass can verify beside the guesses; see Branches.
	MostBranches int
	// AllBranches asks for as many branches as there are, also where they are not expected to pay.
	AllBranches bool
	// Branches receives other guesses of the tokens behind the last accepted one, if they are expected to give more tokens
	// per second. Draft appends up to Most tokens to the lists that are there, of which it uses at most MostBranches.
	Branches [][]int32
	// Beat is how many tokens per second the next drafter is expected to give, which is asked if this one has no guesses; 0
	// if there is none.
	Beat float64
	// Seconds receives what Choose would have returned without each of its tokens.
	Seconds []Second
	// Passes says what passes of the target model take.
	Passes *Passes
	// Choose returns the token that the session draws from a drafter's logits, with the random numbers,
	// penalties and biases that will decide about the target's logits at the same position. A drafter that has
	// logits calls it once for each guess, in order: the guess is then part of the history for the next one.
	// logits has an entry for each token of the target's vocabulary.
	Choose func(logits []float32) (int32, error)
	// Margin is how much the logit of the token that Choose returned last may fall until it returns another one. The
	// target's logits differ from the drafter's: the smaller it is, the likelier the guess is wrong.
	Margin float64
}
