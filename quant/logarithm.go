package quant

import "math"

// logTerms are the coefficients of atanh(s)/s as a polynomial of s², for s up to 1/3.
var logTerms = [...]float64{
	1, 1.0 / 3, 1.0 / 5, 1.0 / 7, 1.0 / 9, 1.0 / 11, 1.0 / 13, 1.0 / 15, 1.0 / 17, 1.0 / 19, 1.0 / 21, 1.0 / 23, 1.0 / 25, 1.0 / 27, 1.0 / 29,
	1.0 / 31,
}

// Log1p returns ln(1+x) of a finite x that is not negative, within a few units of the last place. All processors compute
// the same bits, unlike with math.Log1p, whose products and sums the compiler may fuse: the conversions below forbid it.
func Log1p(x float64) float64 {
	doublings := 0.0
	if x > 1 {
		half, exponent := math.Frexp(1 + x)
		x, doublings = 2*half-1, float64(exponent-1)
	}
	s := x / (2 + x) // ln(1+x) = 2·atanh(s)
	square, sum := float64(s*s), 0.0
	for i := len(logTerms) - 1; i >= 0; i-- {
		sum = float64(sum*square) + logTerms[i]
	}
	return float64(2*s*sum) + float64(doublings*math.Ln2)
}
