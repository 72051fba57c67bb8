package draft

import "github.com/llmrun/llmrun/tiering"

// History counts what became of the guesses of a drafter.
type History struct {
	Asked   int // passes for which the drafter was asked
	Guessed int // passes for which it had guesses
	Right   int // right guesses
	Wrong   int // passes that a wrong guess ended
}

// Add counts a pass with a number of guesses, of which the first right ones were right.
func (h *History) Add(guesses, right int) {
	h.Asked++
	if guesses == 0 {
		return
	}
	h.Guessed++
	h.Right += right
	if right < guesses {
		h.Wrong++
	}
}

// enough is the number of passes from which a prediction learns.
const enough = 24

// Enough reports whether the counts tell something.
func (h *History) Enough() bool { return h.Asked >= enough }

// After returns the counts after more passes. Older ones count half each time, so that the kind of text that is
// generated lately decides.
func (h History) After(more History) History {
	return History{h.Asked/2 + more.Asked, h.Guessed/2 + more.Guessed, h.Right/2 + more.Right, h.Wrong/2 + more.Wrong}
}

// mostCounted bounds counts in a file, so that sums of them do not overflow, and mostGuesses the guesses of a pass.
const mostCounted, mostGuesses = 1 << 30, 1 << 10

// Valid reports whether the counts can be those of a drafter.
func (h *History) Valid() bool {
	return h.Wrong >= 0 && h.Right >= 0 && h.Guessed >= h.Wrong && h.Asked >= h.Guessed && h.Asked <= mostCounted && h.Right <= mostGuesses*h.Guessed
}

// Assumed returns what is assumed of a drafter before any of its guesses were verified. A text repeats itself as in
// questions about a note, see docs/decisions/2026-11-26-guesses-by-look-up.md.
func Assumed(name string) History {
	right := firstModelRight
	switch name {
	case LookupName:
		right = 0.5
	case NestedName:
		right = nestedRight
	}
	const guesses = 1000
	sure := int(right * guesses)
	return History{Asked: guesses, Guessed: guesses, Right: sure, Wrong: guesses - sure}
}

// Expected is the speed that is expected of a drafter.
type Expected struct {
	Guesses       int     // of a pass that has any
	TokensPerPass float64 // of all passes
	Seconds       float64 // of a token
}

// Expect returns what passes with guesses give, if guesses are right as often as before. A pass of a number of tokens
// takes pass seconds, and making a guess each seconds. A pass has most guesses if always is set, and otherwise as
// many as give the most tokens per second; that may be none.
func (h *History) Expect(pass func(tokens int) float64, each float64, most int, always bool) (e Expected) {
	right := float64(h.Right) / float64(max(1, h.Right+h.Wrong))
	if e.Guesses = most; !always {
		e.Guesses = best(most, each, 0, 0, pass, func(int) float64 { return right })
	}
	tokens, all := 1.0, 1.0
	for range e.Guesses {
		all *= right
		tokens += all
	}
	guessed := float64(h.Guessed) / float64(max(1, h.Asked))
	e.TokensPerPass = guessed*tokens + 1 - guessed
	seconds := guessed*(pass(1+e.Guesses)+each*float64(e.Guesses)) + (1-guessed)*pass(1)
	e.Seconds = seconds / e.TokensPerPass
	return e
}

// Growth is how the computing of a pass grows with its tokens.
type Growth struct {
	Step float64 // of a pass of several tokens, because its kernels are others
	More float64 // of each token behind the first
}

// cachedWeights is the size of weights that caches may hold for the most part. Passes of one token are then bound
// by computation too.
const cachedWeights = 64 << 20

// GrowthOf returns how the computing of a pass with the weights of a plan is expected to grow. Several tokens need kernels
// that compute more and read as much from memory.
func GrowthOf(p *tiering.Plan) Growth {
	if p != nil && p.PinnedBytes() > cachedWeights {
		return Growth{Step: 0.25, More: 0.1}
	}
	return Growth{Step: 1.2, More: 0.2}
}

// Of returns the computing of a pass as a multiple of that of a pass of one token.
func (g Growth) Of(tokens int) float64 {
	if tokens == 1 {
		return 1
	}
	return 1 + g.Step + g.More*float64(tokens-1)
}
