package budget

// Stats is how full a Pool is.
type Stats struct {
	Used, Peak int64
	Limit      int64 // 0: none
	Waiting    int   // requests that wait for bytes now
}

// Stats tells how full the pool is.
func (p *Pool) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return Stats{Used: p.used, Peak: p.peak, Limit: p.limit, Waiting: len(p.queue)}
}
