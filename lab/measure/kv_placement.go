package measure

import (
	"context"

	"github.com/llmrun/llmrun/internal/bench"
)

const (
	// placementTokens is a context so short that all of it is in memory on either side.
	placementTokens = 64
	// placementTurns is how many times as often both sides are measured with it as with
	// any other: all rows depend on what comes out.
	placementTurns = 3
)

// placementCost returns how many milliseconds longer a token takes on the side that has
// flash when it has no use for it. The two models lie at different places in memory,
// which makes one of them faster for good; what is compared should not show that.
func (b *kvBench) placementCost(ctx context.Context) (float64, error) {
	sides := [2]*kvSide{b.cold, b.memory}
	for _, side := range sides {
		if err := side.reach(ctx, placementTokens); err != nil {
			return 0, err
		}
	}
	var memory, ratios []float64
	for turn := range placementTurns * b.o.Repeats {
		var ms [2]float64
		for k := range sides {
			i := (turn + k) % len(sides)
			var err error
			if ms[i], _, err = sides[i].decode(ctx, placementTokens, b.o.Decode); err != nil {
				return 0, err
			}
		}
		memory, ratios = append(memory, ms[1]), append(ratios, ms[0]/ms[1])
	}
	if b.cold.model.KVStats().ColdPages > 0 {
		return 0, nil // so little memory for them that it cannot be told
	}
	return bench.Median(memory) * (bench.Median(ratios) - 1), nil
}
