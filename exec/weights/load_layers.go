package weights

import (
	"context"
	"fmt"

	"github.com/llmrun/llmrun/prefetch"
	"github.com/llmrun/llmrun/store/pack"
)

// PlanHost is PlanAll for the host's part of a model whose last layers, offloaded of them, an
// accelerator computes. With them it computes the output matrix, so that the host only looks up
// rows of the embedding. Without such layers, the host's part is the whole model.
func (ld *Loader) PlanHost(offloaded int) (*Weights, []Layout, error) {
	w := &Weights{Layers: make([]LayerWeights, len(ld.Spec.Layers)-offloaded)}
	if offloaded == 0 {
		layouts, err := ld.PlanAll(w)
		return w, layouts, err
	}
	embedding, err := ld.planEmbedding(w)
	if err != nil {
		return nil, nil, err
	}
	layers, err := ld.planLayers(w)
	return w, append([]Layout{embedding}, layers...), err
}

// planEmbedding plans an embedding that the host only looks up, as a pack stores it.
func (ld *Loader) planEmbedding(w *Weights) (Layout, error) {
	ends, err := ld.planEnds(w)
	if err != nil {
		return Layout{}, err
	}
	if ends[0].Kind == EmbeddingLayout {
		return ends[0], nil
	}
	l := Layout{Name: "embedding", Kind: EmbeddingLayout, Places: ends[0].Places[:1]}
	if file, ok := ld.Tensors.Source.(*pack.File); !ok || !l.locate(file) {
		l.Places[0].tile = false
	}
	return l, nil
}

// LoadSequentially reads the layouts one after the other and calls take after each. The
// layout's frame is then the last of Frames, so that take can copy its content and free it
// before the next read.
func (ld *Loader) LoadSequentially(ctx context.Context, layouts []Layout, take func(*Layout) error) error {
	ld.Total += ReadBytes(layouts)
	queue := prefetch.New(loadReaders)
	queue.Scheduler = ld.Scheduler
	defer queue.Close()
	for i := range layouts {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := ld.readAll(ctx, queue, layouts[i:i+1]); err != nil {
			return err
		}
		if err := take(&layouts[i]); err != nil {
			return fmt.Errorf("%s of %s: %w", layouts[i].Name, ld.Tensors.Path, err)
		}
	}
	return nil
}
