package coordinator

import (
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// sweep deletes what is older than the retention: offsets of a group that has no members for that long (KIP-211), and
// offsets of topics that are not there for that long. A group that has neither members nor offsets ends. Retention is counted
// from the start of the process at the earliest: nobody knows how long a group had no members before it, nor how long a topic
// was not there. One look without it, at a directory that is not mounted, is no reason to forget what was read of it.
func (c *Coordinator) sweep(now time.Time) error {
	c.gate.Lock()
	defer c.gate.Unlock()
	list := kmsg.NewPtrListGroupsRequest()
	list.Version = 4
	resp, err := c.ask(list)
	if err != nil {
		return err
	}
	since := c.empty(resp.(*kmsg.ListGroupsResponse), now)
	var changes []change
	gone := map[place]time.Time{}
	for _, group := range c.offsets.groups() {
		emptySince, empty := since[group]
		changes = append(changes, c.offsets.deletions(group, func(at place) bool {
			is, ok := c.known.named(at.topic)
			if ok && at.of(is.Topic) {
				return empty && expired(now, c.offsets.when(group, at), emptySince)
			}
			of := place{topic: at.topic, id: at.id}
			if gone[of] = now; !c.goneSince[of].IsZero() {
				gone[of] = c.goneSince[of]
			}
			return expired(now, c.offsets.when(group, at), gone[of])
		})...)
	}
	c.goneSince = gone
	if err := c.offsets.save(changes); err != nil {
		return err
	}
	return c.end(since, now)
}

// expired says whether an offset is deleted that was committed at a time, and is not needed since another.
func expired(now, committed, since time.Time) bool {
	return now.Sub(committed) >= retention && now.Sub(since) >= retention
}

// empty is since when each group has no members, which is remembered for the next sweep, with the groups that there are.
func (c *Coordinator) empty(list *kmsg.ListGroupsResponse, now time.Time) map[string]time.Time {
	since, groups := map[string]time.Time{}, map[string]struct{}{}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, g := range list.Groups {
		groups[g.Group] = struct{}{}
		if g.GroupState != "Empty" {
			continue
		}
		since[g.Group] = now
		if t, ok := c.emptySince[g.Group]; ok {
			since[g.Group] = t
		}
	}
	for _, g := range c.offsets.groups() {
		groups[g] = struct{}{}
	}
	c.emptySince, c.groups = since, groups
	return since
}

// end deletes the groups that were empty at the last sweep already and have no offsets.
func (c *Coordinator) end(since map[string]time.Time, now time.Time) error {
	has := map[string]bool{}
	for _, g := range c.offsets.groups() {
		has[g] = true
	}
	q := kmsg.NewPtrDeleteGroupsRequest()
	q.Version = 2
	for group, t := range since {
		if !has[group] && t.Before(now) {
			q.Groups = append(q.Groups, group)
		}
	}
	if len(q.Groups) == 0 {
		return nil
	}
	if _, err := c.ask(q); err != nil { // a group that is not empty any more stays, by kfake
		return err
	}
	c.forget(q.Groups...)
	return nil
}
