package coordinator

import (
	"context"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// list lists the groups that a client wants to see. kfake would take its words for states and types as they are written;
// Kafka does not look at their case, and its own tools ask for "Classic" and are answered "classic".
func (s *Session) list(ctx context.Context, client string, q *kmsg.ListGroupsRequest) kmsg.Response {
	states, types := q.StatesFilter, q.TypesFilter
	q.StatesFilter, q.TypesFilter = nil, nil
	resp := s.forward(ctx, client, q)
	if r, ok := resp.(*kmsg.ListGroupsResponse); ok {
		r.Groups = slices.DeleteFunc(r.Groups, func(g kmsg.ListGroupsResponseGroup) bool {
			return !amongFold(states, g.GroupState) || !amongFold(types, g.GroupType)
		})
	}
	return resp
}

// amongFold reports whether a word is one of those that are wanted, in any case of letters. Where none is named all are.
func amongFold(wanted []string, word string) bool {
	return len(wanted) == 0 || slices.ContainsFunc(wanted, func(w string) bool { return strings.EqualFold(w, word) })
}
