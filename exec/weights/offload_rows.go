package weights

// The rows of a matrix that another device computes are its last ones. The host keeps the others,
// so its part of a model is loaded, planned and streamed like a model with shorter matrices. An
// output matrix that is also the embedding stays whole, because lookups read all rows.

// OffloadRows decides which rows of the described matrices another device computes, in the order of
// loading.
func OffloadRows(w *Weights, layouts []Layout, rowsOf func(Matmul) RowSplit) {
	for i := range layouts {
		for _, m := range w.Splittable(&layouts[i]) {
			w := m.Matrix
			kind := Matmul{Name: m.Name, Type: w.Type, Rows: w.Rows, Cols: w.Cols, LastTokenOnly: layouts[i].Kind == EndsLayout}
			w.Offload = &OffloadedRows{RowSplit: rowsOf(kind).AlignTiles(w.Rows), Matmul: &SplitMatmul{Matmul: kind}}
			w.Offload.Matmul.Split = w.Offload.RowSplit
		}
	}
}

// Splittable returns the matrices of a layout that may be split over devices.
func (w *Weights) Splittable(l *Layout) (list []NamedLinear) {
	switch l.Kind {
	case LayerLayout:
		for _, m := range w.Layers[l.Layer].Dense() {
			if m.Matrix.Present() {
				list = append(list, m)
			}
		}
	case EndsLayout:
		if w.Tied = w.Tied || !w.Head.Present(); w.Tied {
			w.Head.Matrix = w.Embed.Matrix
		}
		list = []NamedLinear{{Name: "output", Matrix: &w.Head}}
	}
	return list
}

// shareOffload takes over the offloaded rows of the same model.
func (w *Weights) shareOffload(from *Weights) {
	for l := range w.Layers {
		to := w.Layers[l].Dense()
		for i, m := range from.Layers[l].Dense() {
			to[i].Matrix.Offload = m.Matrix.Offload
		}
	}
	w.Head.Offload = from.Head.Offload
}

// offloads returns the offloaded rows of the placements' matrices, without those of an output matrix
// that is also the embedding.
func (w *Weights) offloads() map[*Matrix]*OffloadedRows {
	rows := map[*Matrix]*OffloadedRows{&w.Head.Matrix: w.Head.Offload}
	for l := range w.Layers {
		for _, m := range w.Layers[l].Dense() {
			rows[&m.Matrix.Matrix] = m.Matrix.Offload
		}
	}
	return rows
}

// KeepHostRows limits layouts to the rows of each matrix that the host has.
func KeepHostRows(w *Weights, layouts []Layout) {
	rows := w.offloads()
	for i := range layouts {
		for j := range layouts[i].Places {
			p := &layouts[i].Places[j]
			if o := rows[p.Matrix]; p.Matrix != nil && o != nil {
				host := min(p.Slice.Rows, max(o.Single, o.Batch))
				p.offloaded = p.Slice.Rows - host
				p.Slice = p.Slice.SubRows(0, host)
			}
		}
	}
}

// DeviceRows returns the layouts of the rows that another device has, with the matrices that have
// some. The matrices' data then begins with their first such row.
func DeviceRows(w *Weights, layouts []Layout) (list []Layout) {
	rows := w.offloads()
	if w.Tied {
		rows[&w.Embed.Matrix] = w.Head.Offload
	}
	for _, l := range layouts {
		places := l.Places
		l.Places = nil
		for _, p := range places {
			if o := rows[p.Matrix]; l.Kind != EmbeddingLayout && p.Matrix != nil && o != nil {
				if n := p.Slice.Rows - min(o.Single, o.Batch); n > 0 {
					p.Slice = p.Slice.SubRows(p.Slice.Rows-n, n)
					l.Places = append(l.Places, p)
				}
			}
		}
		if len(l.Places) > 0 {
			list = append(list, l)
		}
	}
	return list
}
