package vfs

import (
	"maps"
	"math/rand/v2"
	"path"
	"slices"
)

// sectorBytes is the unit that a device writes atomically.
const sectorBytes = 512

// CrashClone returns the file system that a machine finds after losing power now:
// everything synced, and about the fraction keep of everything not synced. Unsynced file
// data survives sector by sector in any combination. Unsynced directory entries survive in
// order, as on journaling file systems. keep 0 and 1 are exact. Equal seeds give equal
// results. CrashClone does not change m.
func (m *Mem) CrashClone(keep float64, seed uint64) *Mem {
	m.mu.Lock()
	defer m.mu.Unlock()
	random := rand.New(rand.NewPCG(seed, 0))
	entries := maps.Clone(m.durable)
	survivors := 0
	for range m.journal {
		if random.Float64() < keep {
			survivors++
		}
	}
	for _, c := range m.journal[:survivors] {
		c.apply(entries)
	}
	// Sorted, so that equal seeds give equal results.
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		if !hasParents(entries, name) {
			delete(entries, name)
			continue
		}
		data := entries[name].afterCrash(keep, random)
		entries[name] = &memNode{dir: entries[name].dir, data: data, synced: slices.Clone(data)}
	}
	return newMemFrom(entries)
}

// hasParents reports whether every directory above name survived.
func hasParents(entries map[string]*memNode, name string) bool {
	for name != "." {
		name = path.Dir(name)
		if node, ok := entries[name]; !ok || !node.dir {
			return false
		}
	}
	return true
}

// afterCrash returns the content of the file after the crash.
func (n *memNode) afterCrash(keep float64, random *rand.Rand) []byte {
	data := slices.Clone(n.synced)
	for _, c := range n.pending {
		if c.data == nil {
			if random.Float64() < keep {
				data = resize(data, c.off)
			}
			continue
		}
		for start := 0; start < len(c.data); start += sectorBytes {
			end := min(start+sectorBytes, len(c.data))
			if random.Float64() < keep {
				data = writeInto(data, c.data[start:end], c.off+int64(start))
			}
		}
	}
	return data
}
