package draft

import "math/bits"

// lengths learns how often guesses behind matches of a length are right, and decides from that
// how many of them pay.
type lengths struct {
	right [matchClasses]float64 // probability that a guess is right behind a match of a length
	seen  [matchClasses]int     // guesses that right is learned from
}

// matchClasses are lengths of matches: 1, 2 to 3, 4 to 7, 8 to 15, and more tokens.
const matchClasses = 5

const (
	// rightGain is the weight of the latest observation in a moving average. The first
	// guesses of a class weigh more: what is assumed of it counts like firstSeen of them.
	rightGain = 1.0 / 12
	firstSeen = 2
	// forgetGain moves the probability of a class that is not tried back to what it was at first,
	// so that a text that becomes repetitive later is noticed.
	forgetGain = 1.0 / 512
)

// firstRight is assumed of guesses before any is known: that of stories, which repeat themselves little.
// Where weights are streamed, a guess costs so little that even these are tried.
var firstRight = [matchClasses]float64{0.1, 0.3, 0.6, 0.75, 0.8}

func matchClass(match int) int { return min(bits.Len(uint(match))-1, matchClasses-1) }

// chance returns the probability that a guess behind a match of a number of tokens is right.
func (l *lengths) chance(match int) float64 { return l.right[matchClass(match)] }

// best returns how many guesses to verify, at most n, behind a match of a number of tokens. If it
// returns 0, a pass of one token is expected to be faster per token.
func (l *lengths) best(p *Passes, match, n int) (best int) {
	if match == 0 {
		return 0
	}
	best = p.Best(n, 0, func(i int) float64 { return l.chance(match + i) }) // a right guess makes the match longer
	if best == 0 {
		right := &l.right[matchClass(match)]
		*right += (firstRight[matchClass(match)] - *right) * forgetGain
	}
	return best
}

// rate returns how many tokens per second n guesses behind a match are expected to give.
func (l *lengths) rate(p *Passes, match, n int) float64 {
	return p.rate(n, 0, func(i int) float64 { return l.chance(match + i) })
}

// verified records that of a number of guesses behind a match the first right ones were right.
func (l *lengths) verified(match, guesses, right int) {
	for i := range min(right+1, guesses) {
		class, was := matchClass(match+i), 0.0
		if i < right {
			was = 1
		}
		l.seen[class]++
		l.right[class] += (was - l.right[class]) * max(rightGain, 1/float64(firstSeen+l.seen[class]))
	}
}
