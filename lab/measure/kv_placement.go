package measure

import (
	"context"

	"github.com/llmrun/llmrun/internal/bench"
)

const (
	// placementTokens is a context so short that both sides hold it in memory.
	placementTokens = 64
	// placementTurns multiplies the number of turns, because all rows depend on the result.
	placementTurns = 3
)

// placementCost returns the extra milliseconds per token on the side with flash when it reads
// nothing from flash. The two copies of the model are at different addresses, which makes one of
// them permanently faster; comparisons must not include that.
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
		return 0, nil // the memory is too small for a measurement without flash
	}
	return bench.Median(memory) * (bench.Median(ratios) - 1), nil
}
