package arch

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestExpertGroupsKeepTheBest(t *testing.T) {
	scores := []float32{0.9, 0, 0.5, 0.5, 0.3, 0.3, 0.5, 0.5}
	const x = Excluded
	for _, c := range []struct {
		g    ExpertGroups
		bias []float32
		want []int32
	}{
		{ExpertGroups{4, 2, 1}, nil, []int32{0, 0, 0, 0, x, x, x, x}},
		{ExpertGroups{4, 2, 2}, nil, []int32{x, x, 0, 0, x, x, 0, 0}},
		{ExpertGroups{4, 1, 2}, nil, []int32{x, x, 0, 0, x, x, x, x}},
		{ExpertGroups{4, 1, 1}, []float32{0, 0, 0, 0, 1, 0, 0, 0}, []int32{x, x, x, x, 0, 0, x, x}},
		{ExpertGroups{4, 4, 1}, nil, []int32{7, 7, 7, 7, 7, 7, 7, 7}},
	} {
		chosen := []int32{7, 7, 7, 7, 7, 7, 7, 7}
		c.g.Exclude(chosen, scores, c.bias)
		require.Equal(t, c.want, chosen, "%+v", c.g)
	}
}
