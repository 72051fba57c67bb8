package solve

import (
	"cmp"
	"slices"
)

// Tree is a regression tree. Each node splits the samples by the feature that
// lowers the sum of squared errors most; a leaf predicts the mean of its samples.
type Tree struct {
	feature     int
	limit       float64 // samples whose feature is at most limit go left
	mean        float64
	left, right *Tree // nil in a leaf
}

// Sample is one observation.
type Sample struct { // features, the same number in every sample
	X []float64 // features, the same number in every sample
	Y float64
}

// GrowTree fits a tree whose leaves hold at least leaf samples. It reorders the
// samples.
func GrowTree(samples []Sample, leaf int) *Tree {
	t := &Tree{}
	for _, s := range samples {
		t.mean += s.Y / float64(len(samples))
	}
	feature, at, limit := bestThreshold(samples, max(leaf, 1))
	if at == 0 {
		return t
	}
	sortBy(samples, feature)
	t.feature, t.limit = feature, limit
	t.left = GrowTree(samples[:at], leaf)
	t.right = GrowTree(samples[at:], leaf)
	return t
}

// Predict returns the prediction for one set of features.
func (t *Tree) Predict(x []float64) float64 {
	for t.left != nil {
		if x[t.feature] <= t.limit {
			t = t.left
		} else {
			t = t.right
		}
	}
	return t.mean
}

// Leaves returns the number of leaves.
func (t *Tree) Leaves() int {
	if t.left == nil {
		return 1
	}
	return t.left.Leaves() + t.right.Leaves()
}

func sortBy(samples []Sample, feature int) {
	slices.SortStableFunc(samples, func(a, b Sample) int { return cmp.Compare(a.X[feature], b.X[feature]) })
}

// bestThreshold returns the feature, the number of samples below the threshold and
// the threshold that lower the squared error most; at is 0 if no threshold does.
func bestThreshold(samples []Sample, leaf int) (feature, at int, limit float64) {
	if len(samples) < 2*leaf {
		return 0, 0, 0
	}
	total := 0.0
	for _, s := range samples {
		total += s.Y
	}
	n := float64(len(samples))
	// The squared error falls as the sum of (sum of a side)²/(its size) grows.
	best := total * total / n * (1 + 1e-9)
	for f := range samples[0].X {
		sortBy(samples, f)
		left := 0.0
		for i := 1; i <= len(samples)-leaf; i++ {
			left += samples[i-1].Y
			if i < leaf || samples[i-1].X[f] == samples[i].X[f] {
				continue
			}
			gain := left*left/float64(i) + (total-left)*(total-left)/(n-float64(i))
			if gain > best {
				best, feature, at = gain, f, i
				limit = (samples[i-1].X[f] + samples[i].X[f]) / 2
			}
		}
	}
	return feature, at, limit
}
