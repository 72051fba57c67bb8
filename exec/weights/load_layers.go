package weights

import (
	"context"
	"fmt"

	"github.com/llmrun/llmrun/prefetch"
)

// Before reports whether the layout belongs to a layer with a smaller index.
func (l *Layout) Before(layer int) bool {
	return (l.Kind == LayerLayout || l.Kind == expertLayout) && l.Layer < layer
}

// LoadLayers reads the layers of a model without its ends. The caller frees the frames,
// even after an error.
func (ld *Loader) LoadLayers(ctx context.Context, w *Weights) error {
	layouts, err := ld.planLayers(w)
	if err != nil {
		return err
	}
	for i := range layouts {
		ld.findSection(&layouts[i])
	}
	return ld.readWeights(ctx, layouts)
}

// LoadSequentially reads the layouts one after the other and calls take after each. The
// layout's frame is then the last of Frames, so that take can copy its content and free it
// before the next read.
func (ld *Loader) LoadSequentially(ctx context.Context, layouts []Layout, take func(*Layout) error) error {
	ld.Total += ReadBytes(layouts)
	queue := prefetch.New(loadReaders)
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
