package sample

import "math"

const (
	log2E = 1 / math.Ln2
	// ln 2 in two parts. The first part has 32 trailing zero bits, so its product with
	// a small integer is exact.
	ln2Hi = 6.93147180369123816490e-01
	ln2Lo = 1.90821492927058770002e-10

	// negligible is the exponent below which a weight relative to the best token
	// becomes zero. e^-50 is below 2^-72. The total of 2^18 such weights is below
	// 2^-53, the difference between two adjacent random numbers.
	negligible = -50
)

// factorials are the Taylor coefficients 1/n! from n = 13 to n = 0. For |r| <= ln(2)/2
// the first omitted term is below 2^-57.
var factorials = [...]float64{
	1.0 / 6227020800, 1.0 / 479001600, 1.0 / 39916800, 1.0 / 3628800, 1.0 / 362880, 1.0 / 40320,
	1.0 / 5040, 1.0 / 720, 1.0 / 120, 1.0 / 24, 1.0 / 6, 1.0 / 2, 1, 1,
}

// exp returns e^x for x <= 0, and 0 if x is below negligible. The result is within 2
// ulp of the exact value and identical on every machine. The conversions around the
// products prevent the compiler from fusing multiplications and additions.
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
