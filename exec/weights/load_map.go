package weights

import (
	"context"
	"errors"

	"github.com/llmrun/llmrun/tiering"
)

// frameFor returns memory for a layout: a mapping of the file if pinFile is set, otherwise
// anonymous memory.
func (ld *Loader) frameFor(l *Layout) (*tiering.Frame, error) {
	if ld.pinFile && ld.Residency != nil && l.stored() && l.Kind != expertLayout {
		if err := ld.Residency.noteStamp(); err != nil {
			return nil, err
		}
		m, err := ld.Residency.File.MapSection(l.index)
		if err != nil {
			return nil, err
		}
		l.Mapped = true
		frame, err := tiering.Adopt(ld.Budget, tiering.Mapped, m.Bytes(), l.Size, func() { _ = m.Close() })
		if err != nil {
			return nil, errors.Join(err, m.Close())
		}
		l.mapping = m
		return frame, nil
	}
	// A later plan may pin more of the section.
	return tiering.AllocRoom(ld.Budget, tiering.Pinned, l.Size, l.SectionSize)
}

// useMapping verifies the block checksums of a mapping and points the weights into it.
func (ld *Loader) useMapping(ctx context.Context, l *Layout) error {
	if err := l.verifyMapping(ctx, mappingReads{ld.Residency.File, ld.Scheduler, ld.AddRead}, 0, l.Size); err != nil {
		return err
	}
	return l.attach(l.Frame.Bytes())
}

// stored reports whether a pack stores the bytes of the section, so that it can be mapped.
func (l *Layout) stored() bool {
	_, converted := l.section.(*conversion)
	return l.section != nil && !converted
}
