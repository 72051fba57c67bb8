package quant

import (
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestFMA32 checks that the emulated FMA equals exact arithmetic, on random bit patterns
// and on sums at or beside a midpoint.
func TestFMA32(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 7))
	for i := range 200_000 {
		a, b, c := anyFloat(rng), anyFloat(rng), anyFloat(rng)
		if i%2 == 0 {
			// c is a*b times a power of two, with different last bits, so that sums
			// often cancel, underflow or hit a midpoint.
			scaled := math.Ldexp(float64(a)*float64(b), rng.IntN(60)-30)
			c = math.Float32frombits(math.Float32bits(float32(-scaled)) + uint32(rng.IntN(3)))
		}
		want, ok := exactFMA(a, b, c)
		got := fma32(a, b, c)
		if ok && math.Float32bits(want) != math.Float32bits(got) {
			t.Fatalf("fma(%g, %g, %g) = %g, want %g", a, b, c, got, want)
		}
	}
	for _, special := range [][4]float32{
		{1, 1, -1, 0},
		{minusZero, 1, minusZero, minusZero},
		{minusZero, 1, 0, 0},
		{1e30, 1e30, 1, inf32},
		{inf32, -1, 5, -inf32},
		{0x1p-75, -0x1p-75, 0, minusZero},
		{0x1p-75, 0x1p-75, 0x1p-149, 0x1p-148},
	} {
		requireBits(t, special[3:], []float32{fma32(special[0], special[1], special[2])}, "%v", special)
	}
}

var inf32 = float32(math.Inf(1))

// anyFloat returns a random bit pattern, more often of a moderate exponent.
func anyFloat(rng *rand.Rand) float32 {
	bits := rng.Uint32()
	if rng.IntN(4) > 0 {
		bits = bits&0x807fffff | uint32(127-12+rng.IntN(24))<<23
	}
	return math.Float32frombits(bits)
}

// exactFMA computes a*b+c in arbitrary precision. It returns false for infinities, NaNs
// and zero results, because big.Float defines the sign of zero differently.
func exactFMA(a, b, c float32) (float32, bool) {
	for _, v := range []float32{a, b, c} {
		if v-v != 0 {
			return 0, false
		}
	}
	product := new(big.Float).SetPrec(600).Mul(big.NewFloat(float64(a)), big.NewFloat(float64(b)))
	sum := product.Add(product, big.NewFloat(float64(c)))
	if sum.Sign() == 0 {
		return 0, false
	}
	result, _ := sum.Float32()
	return result, true
}

// ulps returns the difference between want and got in units in the last place of want.
func ulps(want float64, got float32) float64 {
	_, exponent := math.Frexp(want)
	return math.Abs(float64(got)-want) / math.Ldexp(1, max(exponent-24, -149))
}

// TestExp32 checks that the error of Exp32 is at most 2 ulp, and checks its special values.
func TestExp32(t *testing.T) {
	forEachPath(t, func(t *testing.T) {
		worst := 0.0
		for x := float32(-87.3); x < 88.7228; x += 0.00173 {
			worst = max(worst, ulps(math.Exp(float64(x)), Exp32(x)))
		}
		require.LessOrEqual(t, worst, 2.0)
		for x, want := range map[float32]float32{
			0: 1, minusZero: 1, -87.31: 0, -1000: 0, -inf32: 0, 88.73: inf32, 1e30: inf32, inf32: inf32,
		} {
			require.Equal(t, want, Exp32(x), "Exp32(%g)", x)
		}
		require.True(t, math.IsNaN(float64(Exp32(float32(math.NaN())))))
		largest := float32(expMax)
		require.False(t, math.IsInf(float64(Exp32(largest)), 0), "the largest argument must not overflow")
	})
}

// TestTanh32 checks that the error of Tanh32 is at most 2 ulp, and checks its special
// values.
func TestTanh32(t *testing.T) {
	forEachPath(t, func(t *testing.T) {
		worst := 0.0
		for x := float32(1e-9); x < 12; x *= 1.0007 {
			worst = max(worst, ulps(math.Tanh(float64(x)), Tanh32(x)))
			require.Equal(t, -Tanh32(x), Tanh32(-x))
		}
		require.LessOrEqual(t, worst, 2.0)
		require.Equal(t, float32(1), Tanh32(inf32))
		require.Equal(t, float32(-1), Tanh32(-100))
		require.True(t, math.IsNaN(float64(Tanh32(float32(math.NaN())))))
		requireBits(t, []float32{minusZero, 1e-40}, []float32{Tanh32(minusZero), Tanh32(1e-40)}, "tiny")
	})
}

// elementwiseInputs returns values in and beyond the range of the exponential, and special
// values.
func elementwiseInputs(rng *rand.Rand, n int) []float32 {
	special := []float32{0, minusZero, inf32, -inf32, float32(math.NaN()), 88.8, -87.4, 1e-40, -1e38}
	values := spread(rng, n)
	for i := range values {
		values[i] *= 10
		if rng.IntN(10) == 0 {
			values[i] = special[rng.IntN(len(special))]
		}
	}
	return values
}

// TestElementwiseMatchesTwin checks that elementwise functions have the same bits on every
// path and its twin.
func TestElementwiseMatchesTwin(t *testing.T) {
	forEachPath(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(8, 1))
		twin := twinOf(active)
		for _, n := range sizes {
			x, other := elementwiseInputs(rng, n), elementwiseInputs(rng, n)
			norm := func(by func(dst, x, weight []float32, scale, offset float32), offset float32) func(dst, x []float32) {
				return func(dst, x []float32) { by(dst, x, other, 1.7, offset) }
			}
			for name, pair := range map[string][2]func(dst, x []float32){
				"silu": {twin.silu, Silu}, "sigmoid": {twin.sigmoid, active.sigmoid}, "gelu": {twin.geluTanh, GeluTanh}, "erf": {twin.geluErf, GeluErf},
				"cap 0.3": {capped(twin.softCap, 0.3), capped(SoftCap, 0.3)},
				"cap 50":  {capped(twin.softCap, 50), capped(SoftCap, 50)},
				"scale":   {capped(twin.scale, -0.7), capped(Scale, -0.7)},
				"add":     {combined(twin.add, other), combined(Add, other)},
				"mul":     {combined(twin.mulBy, other), combined(Mul, other)},
				"scaled":  {combined(scaled(twin.addScaled), other), combined(scaled(AddScaled), other)},
				"product": {combined(product(twin.addProduct, x), other), combined(product(AddProduct, x), other)},
				"clamp":   {clamped(twin.clamp, -0.4, 7, 1, 1.7), clamped(active.clamp, -0.4, 7, 1, 1.7)},
				"limit":   {clamped(twin.clamp, -inf32, 7, minusZero, -1.7), clamped(active.clamp, -inf32, 7, minusZero, -1.7)},
				"norm 0":  {norm(twin.norm, 0), norm(active.norm, 0)},
				"norm 1":  {norm(twin.norm, 1), norm(active.norm, 1)},
			} {
				want, got := filled(n+1), append(append([]float32(nil), x...), -12345)
				pair[0](want[:n], x)
				pair[1](got[:n], got[:n]) // in place
				requireBits(t, want, got, "%s n=%d", name, n)
			}
		}
	})
}

// combined adapts a function that updates dst in place to the signature of the others.
func combined(change func(dst, a []float32), a []float32) func(dst, x []float32) {
	return func(dst, x []float32) {
		copy(dst, x)
		change(dst, a)
	}
}

// scaled adapts AddScaled to the signature of the other functions, and product AddProduct.
func scaled(by func(dst, a []float32, s float32)) func(dst, a []float32) {
	return func(dst, a []float32) { by(dst, a, -0.7) }
}

func product(of func(dst, a, b []float32), b []float32) func(dst, a []float32) {
	b = slices.Clone(b) // dst may become b
	return func(dst, a []float32) { of(dst, a, b) }
}

func clamped(by func(x []float32, low, high, offset, factor float32), low, high, offset, factor float32) func(dst, x []float32) {
	return func(dst, x []float32) {
		copy(dst, x)
		by(dst, low, high, offset, factor)
	}
}

// capped adapts SoftCap and Scale to the signature of the other functions.
func capped(softCap func(x []float32, limit float32), limit float32) func(dst, x []float32) {
	return func(dst, x []float32) {
		copy(dst, x)
		softCap(dst, limit)
	}
}

// TestActivationValues checks that activation functions are close to their definitions in
// float64.
func TestActivationValues(t *testing.T) {
	forEachPath(t, func(t *testing.T) {
		for x := float32(-12); x < 12; x += 0.37 {
			v := float64(x)
			got := make([]float32, 1)
			Silu(got, []float32{x})
			require.InDelta(t, v/(1+math.Exp(-v)), got[0], 1e-6)
			GeluTanh(got, []float32{x})
			require.InDelta(t, v/2*(1+math.Tanh(math.Sqrt(2/math.Pi)*(v+0.044715*v*v*v))), got[0], 1e-6)
			GeluErf(got, []float32{x})
			require.InEpsilon(t, v/2*math.Erfc(-v/math.Sqrt2), got[0], 2e-6*max(1, v*v/8), "%g", x)
			up := []float32{3}
			SiluMul(got, []float32{x}, up)
			require.InDelta(t, 3*v/(1+math.Exp(-v)), got[0], 1e-5)
		}
	})
}

// TestSoftmaxBlockMatchesTwin checks that SoftmaxBlock has the same bits on every path and
// its twin.
func TestSoftmaxBlockMatchesTwin(t *testing.T) {
	forEachPath(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(9, 1))
		for _, n := range sizes[1:] {
			x := spread(rng, n)
			for i := range x {
				if rng.IntN(6) == 0 {
					x[i] = -inf32
				}
			}
			twin := twinOf(active)
			want, got := append([]float32(nil), x...), append(append([]float32(nil), x...), -12345)
			wantMax := twin.maxOf(want)
			shift := wantMax
			if math.IsInf(float64(shift), -1) {
				shift = 0
			}
			wantSum := twin.expSum(want, shift)
			gotMax, gotSum := SoftmaxBlock(got, n)
			require.Equal(t, wantMax, gotMax)
			requireBits(t, append(want, -12345, wantSum), append(got, gotSum), "n=%d", n)
		}
	})
}

// TestSoftmaxBlockEdges checks blocks that are fully masked, contain NaNs or are empty.
func TestSoftmaxBlockEdges(t *testing.T) {
	forEachPath(t, func(t *testing.T) {
		masked := []float32{-inf32, -inf32, -inf32}
		max, sum := SoftmaxBlock(masked, 3)
		require.Equal(t, []float32{-inf32, 0}, []float32{max, sum})
		require.Equal(t, []float32{0, 0, 0}, masked)

		for _, nans := range [][]float32{{1, float32(math.NaN()), 2}, {float32(math.NaN())}, {float32(math.NaN()), -inf32}} {
			_, sum = SoftmaxBlock(nans, len(nans))
			require.True(t, math.IsNaN(float64(sum)), "%v", nans)
		}
		max, sum = SoftmaxBlock(nil, 0)
		require.Equal(t, []float32{-inf32, 0}, []float32{max, sum})
	})
}

// TestNorms checks RMSNorm and LayerNorm against results computed by hand.
func TestNorms(t *testing.T) {
	x, weight, bias := []float32{1, 2, 3, 6}, []float32{1, 2, 1, 0.5}, []float32{0, 1, 0, -1}
	forEachPath(t, func(t *testing.T) {
		got := make([]float32, 4)
		RMSNorm(got, x, weight, 0, 0) // mean square 12.5
		inv := 1 / math.Sqrt(12.5)
		require.InDeltaSlice(t, []float64{inv, 4 * inv, 3 * inv, 3 * inv}, got, 1e-6)
		RMSNorm(got, x, weight, 0, 1)
		require.InDeltaSlice(t, []float64{2 * inv, 6 * inv, 6 * inv, 9 * inv}, got, 1e-6)
		LayerNorm(got, x, weight, bias, 0.5) // mean 3, variance 3.5
		require.InDeltaSlice(t, []float64{-1, 0, 0, -0.25}, got, 1e-6)
		copy(got, x)
		LayerNorm(got, got, weight, nil, 0.5)
		require.InDeltaSlice(t, []float64{-1, -1, 0, 0.75}, got, 1e-6)
	})
}

// TestClampedSiluMul compares with the definition in float64, on both sides of the limits.
func TestClampedSiluMul(t *testing.T) {
	const limit = 7
	var gate, up, want []float32
	for g := float32(-30); g <= 30; g += 0.75 {
		for _, u := range []float32{-20, -7, -1, -0.3, 0, 2.5, 7, 9} {
			gate, up = append(gate, g), append(up, u)
			x, y := math.Min(float64(g), limit), math.Max(math.Min(float64(u), limit), -limit)
			want = append(want, float32(x/(1+math.Exp(-1.702*x))*(y+1)))
		}
	}
	ClampedSiluMul(gate, gate, up, limit)
	for i, w := range want {
		if d := math.Abs(float64(gate[i] - w)); d > 1e-5*(1+math.Abs(float64(w))) {
			t.Errorf("element %d: %v, want %v", i, gate[i], w)
		}
	}
}

// TestArgMaxReturnsTheFirstMaximum checks that ArgMax returns the same index as a scalar
// loop, for inputs with equal elements, NaNs and -Inf.
func TestArgMaxReturnsTheFirstMaximum(t *testing.T) {
	forEachPath(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(10, 1))
		for _, n := range []int{0, 1, 17, argMaxBlock - 1, argMaxBlock, 3*argMaxBlock + 5} {
			for _, values := range []int{1, 3, 1 << 20} {
				x := make([]float32, n)
				want := -1
				for i := range x {
					switch x[i] = float32(rng.IntN(values)) - float32(values)/2; rng.IntN(8) {
					case 0:
						x[i] = float32(math.NaN())
					case 1:
						x[i] = -inf32
					}
					if x[i] > -inf32 && (want < 0 || x[i] > x[want]) {
						want = i
					}
				}
				require.Equal(t, want, ArgMax(x), "%d elements of %d values", n, values)
			}
		}
		require.Equal(t, -1, ArgMax([]float32{-inf32, float32(math.NaN()), -inf32}))
	})
}

// TestAllFinite checks that AllFinite finds an infinity or NaN at any position.
func TestAllFinite(t *testing.T) {
	forEachPath(t, func(t *testing.T) {
		x := make([]float32, 100)
		for i := range x {
			x[i] = math.MaxFloat32 * float32(1-2*(i%2))
		}
		require.True(t, AllFinite(x))
		require.True(t, AllFinite(nil))
		for _, v := range []float32{inf32, -inf32, float32(math.NaN())} {
			for _, i := range []int{0, 57, 99} {
				kept := x[i]
				x[i] = v
				require.False(t, AllFinite(x), "%v at %d", v, i)
				x[i] = kept
			}
		}
	})
}

// TestLog1p compares with package math over the range of float32, and pins the bits of some results, which are those of
// every processor.
func TestLog1p(t *testing.T) {
	require.Zero(t, Log1p(0))
	require.True(t, math.IsNaN(Log1p(math.NaN())))
	for x := 1e-38; x < 1e38; x *= 1.37 {
		require.InEpsilon(t, math.Log1p(x), Log1p(x), 1e-15, "%g", x)
	}
	for x, bits := range map[float64]uint64{
		1: 0x3fe62e42fefa39ee, 3: 0x3ff62e42fefa39ef, 0.1: 0x3fb8663f793c46c6, 1e-3: 0x3f5060354f8c3ebf, 12345: 0x4022d798c4a0e37e,
	} {
		require.Equal(t, bits, math.Float64bits(Log1p(x)), "%g is %#x", x, math.Float64bits(Log1p(x)))
	}
}
