package exec

import "github.com/llmrun/llmrun/quant/tiled"

// share is some rows of a product, what a thread takes at a time.
type share struct {
	job    int
	lo, hi int // rows of the job
}

// Parts get smaller towards the end of a step: a thread that is free takes half
// of what would be its share of the rest. So most of a matrix is read in long
// runs, and threads finish together also where cores differ in speed. No part
// is less than smallestShare of a thread's share of the step.
const smallestShare = 32

// cutJobs divides what is next of all jobs into parts.
func (p *pass) cutJobs() {
	left := 0 // products of elements
	for i := range p.jobs {
		left += p.jobs[i].rowWork() * (p.jobs[i].hi - p.jobs[i].lo)
	}
	threads := len(p.workers)
	least := left / (smallestShare * threads)
	p.parts = p.parts[:0]
	for i := range p.jobs {
		j := &p.jobs[i]
		for lo := j.lo; lo < j.hi; {
			work := left
			if threads > 1 {
				work = max(least, left/(2*threads))
			}
			tiles := max(1, work/(j.rowWork()*tiled.TileRows))
			hi := min(lo+tiles*tiled.TileRows, j.hi)
			p.parts = append(p.parts, share{i, lo, hi})
			left -= (hi - lo) * j.rowWork()
			lo = hi
		}
	}
}

// mostParts bounds how many parts so many jobs are cut into: those that end a
// job, and others, which are no smaller than half the least share.
func mostParts(jobs, threads int) int { return jobs + 2*smallestShare*threads }

// rowWork returns how many products of elements a row takes.
func (j *job) rowWork() int { return j.w.Cols * j.n }
