package sample

import "math"

const (
	log2E = 1 / math.Ln2
	// ln 2 in two parts; the first has 32 trailing zero bits, so that its product
	// with a small integer is exact.
	ln2Hi = 6.93147180369123816490e-01
	ln2Lo = 1.90821492927058770002e-10

	// negligible is where a weight relative to the best token's becomes zero.
	// e^-50 is below 2^-72, so that even a vocabulary of 2^18 such tokens has
	// less mass together than the 2^-53 between two random numbers.
	negligible = -50
)

// factorials are the Taylor coefficients 1/n!, from n = 13 down to 0. The first
// one left out contributes less than 2^-57 for |r| <= ln(2)/2.
var factorials = [...]float64{
	1.0 / 6227020800, 1.0 / 479001600, 1.0 / 39916800, 1.0 / 3628800, 1.0 / 362880, 1.0 / 40320,
	1.0 / 5040, 1.0 / 720, 1.0 / 120, 1.0 / 24, 1.0 / 6, 1.0 / 2, 1, 1,
}

// exp returns e^x for x <= 0, and 0 where that is negligible. It is within 2 ulp
// of the true value and the same bit for bit on every machine: the conversions
// around the products forbid the compiler to fuse them into the sums.
func exp(x float64) float64 {
	if x < negligible {
		return 0
	}
	// x = k ln 2 + r
	k := math.Floor(float64(x*log2E) + 0.5)
	r := x - float64(k*ln2Hi)
	r -= float64(k * ln2Lo)
	p := 0.0
	for _, c := range factorials {
		p = float64(p*r) + c
	}
	return p * math.Float64frombits(uint64(1023+int64(k))<<52) // p * 2^k
}
