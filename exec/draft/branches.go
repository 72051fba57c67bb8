package draft

import "math"

// Most of what look-up guesses beside its first guesses.
const (
	MaxBranches  = 2 // in a pass
	BranchLength = 8 // guesses of a branch
)

// branches learns what other continuations give, and decides how many of them pay.
type branches struct {
	gain    [MaxBranches]float64 // tokens that a branch adds to a pass
	offered int                  // of the last Draft
}

// firstGain is assumed of a branch before any was verified; see docs/decisions/2026-11-26-trees-of-guesses.md.
const firstGain = 0.1

func newBranches() (b branches) {
	for i := range b.gain {
		b.gain[i] = firstGain / float64(1+i)
	}
	return b
}

// add adds to a request the branches that pay beside the guesses of the pass. right is the probability that a guess behind a
// match of a number of tokens is right.
func (b *branches) add(r *Request, text *Automaton, guesses []int32, right func(match int) float64) {
	const tokens = 2 // of a pass without branches, or so
	n := b.paying(r, tokens, 1+len(guesses), 1+BranchLength+len(guesses)/2)
	r.Branches = text.others(r.Branches, n, r.Most, guesses, right)
	b.offered = len(r.Branches)
}

// paying returns how many branches of each tokens pay beside the rows of a pass that gives a number of tokens without them.
func (b *branches) paying(r *Request, tokens float64, rows, each int) (n int) {
	tokens += r.Passes.Others.Gives
	for ; n < min(r.MostBranches, MaxBranches); n++ {
		before := r.Passes.time(rows)
		rows += each
		if pass := r.Passes.time(rows); !r.AllBranches && b.gain[n]/tokens < (pass-before)/before {
			b.gain[n] += (firstGain/float64(1+n) - b.gain[n]) * forgetGain
			break
		}
	}
	return n
}

// addSeconds is add for guesses that a model chose: branches end with its second choices where the first ones lead least.
func (b *branches) addSeconds(r *Request, tokens float64, guesses []int32) {
	n := b.paying(r, tokens, 1+len(guesses), 2+len(guesses)/2)
	for b.offered = 0; b.offered < n; b.offered++ {
		at := -1
		for i := range r.Seconds {
			if s := &r.Seconds[i]; !math.IsInf(s.Lead, 1) && (at < 0 || s.Lead < r.Seconds[at].Lead) {
				at = i
			}
		}
		if at < 0 {
			return
		}
		r.Branches = r.Branches[:b.offered+1]
		list := &r.Branches[b.offered]
		*list = append(append((*list)[:0], guesses[:at]...), r.Seconds[at].ID)
		r.Seconds[at].Lead = math.Inf(1) // taken
	}
}

// kept records which of the branches, -1 for none, gave more tokens.
func (b *branches) kept(branch, more int) {
	for i := range b.offered {
		gave := 0.0
		if i == branch {
			gave = float64(more)
		}
		b.gain[i] += (gave - b.gain[i]) * rightGain / 4
	}
}

// others appends up to n continuations of up to most tokens that leave the guesses at one of them and go on with another
// token: those that are most likely kept. It appends to the lists of dst beyond its length.
func (t *Automaton) others(dst [][]int32, n, most int, guesses []int32, right func(match int) float64) [][]int32 {
	var found [MaxBranches]fork
	best, all := found[:min(n, MaxBranches)], 1.0 // all: the probability that the guesses before are right
	s := t.link[t.last]
	match := t.length[s]
	for depth, guess := range guesses {
		t.forks(best, s, depth, guess, all*(1-right(int(match))), right)
		for s > 0 && t.find(s, guess) < 0 { // the guesses have left the text, which repeats itself
			s = t.link[s]
			match = t.length[s]
		}
		if s <= 0 {
			break
		}
		all *= right(int(match))
		s, match = t.to[t.find(s, guess)], match+1
	}
	for _, f := range best {
		if f.chance > 0 {
			dst = dst[:len(dst)+1]
			list := &dst[len(dst)-1]
			*list = append((*list)[:0], guesses[:f.depth]...)
			*list = append(*list, t.text[f.at:min(t.used, f.at+min(BranchLength, most-f.depth))]...)
		}
	}
	return dst
}

// fork is where a branch leaves the guesses, and where it goes on in the text.
type fork struct {
	depth, at int
	chance    float64 // that the branch is kept, as a multiple of an unknown number
}

// forks looks for tokens that followed a state or a shorter substring of it, other than a guess, and keeps those with the
// greatest chances in best. wrong is the probability that the guess is the first wrong one.
func (t *Automaton) forks(best []fork, s int32, depth int, guess int32, wrong float64, right func(match int) float64) {
	for ; s > 0; s = t.link[s] {
		chance := wrong * right(int(t.length[s]))
		for e := t.edges[s]; e >= 0; e = t.sibling[e] {
			at := int(t.ended[t.to[e]]) // where the token stands
			if id := t.token[e]; id == guess || at < 0 || t.text[at] != id || t.offered(best, depth, id) {
				continue
			}
			f := fork{depth, at, chance}
			for i := range best {
				if f.chance > best[i].chance {
					f, best[i] = best[i], f
				}
			}
		}
	}
}

// offered reports whether a branch leaves the guesses at a depth with a token.
func (t *Automaton) offered(best []fork, depth int, id int32) bool {
	for i := range best {
		if best[i].chance > 0 && best[i].depth == depth && t.text[best[i].at] == id {
			return true
		}
	}
	return false
}
