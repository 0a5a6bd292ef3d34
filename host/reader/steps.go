package reader

import (
	"fmt"
	"strings"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/format"
	"github.com/rsmhost/rsmhost/host/indexcache"
	"github.com/rsmhost/rsmhost/host/locality"
	"github.com/rsmhost/rsmhost/host/locallog"
	"github.com/rsmhost/rsmhost/host/rlmm"
	"github.com/rsmhost/rsmhost/host/trace"
	"github.com/rsmhost/rsmhost/host/transfer"
)

// The steps of the trace. Where nobody watches, the evidence is not even put together: a brief trace takes one number.

func (r *Reader) traceLocality(rd *read, m trace.Mark) {
	if !rd.tr.On() {
		rd.tr.Brief(m, "locality", rd.ans.Where.String(), rd.req.Offset)
		return
	}
	o := rd.part.Offsets
	attrs := []trace.Attr{trace.A("topicId", rd.part.ID.TopicID.String()), trace.A("logStartOffset", o.LogStart),
		trace.A("localLogStartOffset", o.LocalStart), trace.A("lastStableOffset", o.LastStableOffset),
		trace.A("highWatermark", o.HighWatermark), trace.A("logEndOffset", o.LogEnd), trace.A("why", rd.ans.Why)}
	detail := fmt.Sprintf("log start %d, local start %d, high watermark %d", o.LogStart, o.LocalStart, o.HighWatermark)
	if rd.part.Local == nil {
		detail = fmt.Sprintf("log start %d, no local tier, high watermark %d", o.LogStart, o.HighWatermark)
	}
	if rd.iso == locality.ReadCommitted {
		detail += fmt.Sprintf(", last stable offset %d", o.LastStableOffset)
	}
	switch rd.ans.Where {
	case locality.Local, locality.Remote:
	case locality.Diverged:
		detail = fmt.Sprintf("epoch %d ends at %d", rd.ans.Diverging.Epoch, rd.ans.Diverging.StartOffset)
	default:
		detail = rd.ans.Why + ": " + detail
	}
	rd.tr.Add(m, "locality", rd.ans.Where.String(), attrs, "%s", detail)
}

func traceEpoch(rd *read, m trace.Mark, le abi.LeaderEpoch) {
	if !rd.tr.On() {
		rd.tr.Brief(m, "epoch", "", int64(le.Epoch))
		return
	}
	rd.tr.Add(m, "epoch", fmt.Sprint(le.Epoch), []trace.Attr{trace.A("leaderEpoch", le.Epoch), trace.A("startOffset", le.StartOffset)},
		"began at %d", le.StartOffset)
}

func traceSegment(rd *read, m trace.Mark, seg *rlmm.Segment) {
	if !rd.tr.On() {
		rd.tr.Brief(m, "segment", "", seg.StartOffset)
		return
	}
	rd.tr.Add(m, "segment", fmt.Sprintf("%d-%d", seg.StartOffset, seg.EndOffset),
		[]trace.Attr{trace.A("segmentId", seg.SegmentID.String()), trace.A("startOffset", seg.StartOffset),
			trace.A("endOffset", seg.EndOffset), trace.A("sizeInBytes", seg.SizeBytes), trace.A("brokerId", seg.BrokerID)},
		"%s, %s, copied by broker %d", seg.SegmentID, trace.Bytes(seg.SizeBytes), seg.BrokerID)
}

func traceIndex(rd *read, m trace.Mark, t abi.IndexType, size int64, origin indexcache.Origin, store string, used transfer.Evidence) {
	if !rd.tr.On() {
		rd.tr.Brief(m, "index", string(origin), size)
		return
	}
	attrs := []trace.Attr{trace.A("type", t.String()), trace.A("bytes", size), trace.A("origin", string(origin))}
	if origin != indexcache.Fetched {
		rd.tr.Add(m, "index", "hit", attrs, "%s, %s, from the cache %s", t, trace.Bytes(size), strings.TrimPrefix(string(origin), "hit "))
		return
	}
	rd.tr.Add(m, "index", "miss", append(attrs, trace.A("source", used.Form), trace.A("where", used.Where)), "%s, %s, from %s: %s", t, trace.Bytes(size), store, form(used))
}

// form says in words how a Source brought its bytes.
func form(used transfer.Evidence) string {
	if used.Form != "location" {
		return "a stream"
	}
	kind, path, _ := strings.Cut(used.Where, " ")
	if i := strings.LastIndexByte(path, '/'); i >= 0 {
		path = "..." + path[i:]
	}
	return strings.TrimSpace(kind + " " + path)
}

func tracePosition(rd *read, m trace.Mark, pos int64, evidence string, x format.OffsetIndex) {
	if !rd.tr.On() {
		rd.tr.Brief(m, "position", "", pos)
		return
	}
	if x != nil && x.Len() == 0 {
		evidence = "the index has no entry: from the segment's begin"
	}
	rd.tr.Add(m, "position", fmt.Sprint(pos), []trace.Attr{trace.A("position", pos), trace.A("entries", x.Len())}, "%s", evidence)
}

func traceSource(rd *read, store string, obj *transfer.Object) {
	if !rd.tr.On() {
		if used := obj.Evidence(); used.Form != "" {
			rd.tr.BriefTook(used.Waited, "source", used.Form, int64(used.Asked))
		}
		return
	}
	used := obj.Evidence()
	if used.Form == "" {
		return
	}
	detail := fmt.Sprintf("%s: %s, plain", store, form(used))
	if used.Cached {
		detail += ", kept from an earlier read"
	}
	rd.tr.AddTook(used.Waited, "source", used.Form, []trace.Attr{trace.A("plugin", store), trace.A("form", used.Form),
		trace.A("where", used.Where), trace.A("cached", used.Cached), trace.A("asked", used.Asked), trace.A("encoding", "plain")}, "%s", detail)
}

func traceTransfer(rd *read, m trace.Mark, w *window, skipped int64) {
	if !rd.tr.On() {
		rd.tr.BriefTook(rd.tr.Since(m)-w.obj.Evidence().Waited, "transfer", "", w.moved)
		return
	}
	used := w.obj.Evidence()
	took := rd.tr.Since(m) - used.Waited // the plugin's share stands at source
	rd.tr.AddTook(took, "transfer", trace.Bytes(w.moved), []trace.Attr{trace.A("bytes", w.moved), trace.A("reads", used.Reads),
		trace.A("skippedBytes", skipped), trace.A("sharedBytes", used.Shared), trace.A("passedOverBytes", used.Skipped),
		trace.A("retries", used.Retries)}, "%s, %s%s", plural(used.Reads, "read"), thrownAway(skipped), besides(used))
}

// besides tells what is out of the ordinary in a transfer.
func besides(used transfer.Evidence) string {
	var out string
	if used.Shared > 0 {
		out += ", " + trace.Bytes(used.Shared) + " came with another read"
	}
	if used.Skipped > 0 {
		out += ", " + trace.Bytes(used.Skipped) + " of the stream passed over"
	}
	switch used.Retries {
	case 0:
	case 1:
		out += ", tried again once"
	default:
		out += fmt.Sprintf(", tried again %d times", used.Retries)
	}
	return out
}

func thrownAway(n int64) string {
	if n == 0 {
		return "nothing thrown away"
	}
	return trace.Bytes(n) + " before the offset thrown away"
}

func traceNothing(rd *read, m trace.Mark, seg piece, offset int64) {
	if !rd.tr.On() {
		rd.tr.Brief(m, "batches", "none", 0)
		return
	}
	where := "the segment's end"
	if seg.until <= seg.EndOffset {
		where = "the end of the lineage in it"
	}
	rd.tr.Add(m, "batches", "0", nil, "none at or above %d up to %s at %d", offset, where, seg.until-1)
}

func traceBatches(rd *read, m trace.Mark, before *accumulator, n int64, verified bool) {
	if rd.acc.batches == before.batches {
		return
	}
	if !rd.tr.On() {
		rd.tr.Brief(m, "batches", "", int64(rd.acc.batches-before.batches))
		return
	}
	first := before.next
	if before.batches == 0 {
		first = rd.acc.firstBase
	}
	crc := "CRC not checked"
	if verified {
		crc = "CRC good"
	}
	count := rd.acc.batches - before.batches
	rd.tr.Add(m, "batches", fmt.Sprint(count), []trace.Attr{trace.A("batches", count), trace.A("bytes", n), trace.A("firstOffset", first),
		trace.A("lastOffset", rd.acc.next-1), trace.A("crcChecked", verified)}, "%d-%d, %s, %s", first, rd.acc.next-1, crc, rd.acc.codecNames())
}

// codecNames lists the codecs that were seen.
func (a *accumulator) codecNames() string {
	var names []string
	for c := format.CodecNone; c <= format.CodecZstd; c++ {
		if a.codecs&(1<<uint8(c)) != 0 {
			names = append(names, strings.Replace(c.String(), "none", "uncompressed", 1))
		}
	}
	return strings.Join(names, ", ")
}

func traceLocal(rd *read, m trace.Mark, span locallog.Span, n int64) {
	if !rd.tr.On() {
		rd.tr.Brief(m, "local", "", n)
		return
	}
	file := format.SegmentFileName(span.Segment.Base, ".log")
	rd.tr.Add(m, "local", trace.Bytes(n), []trace.Attr{trace.A("bytes", n), trace.A("file", file), trace.A("position", span.Pos)},
		"%d-%d, from %s at %d", span.First.BaseOffset, rd.acc.next-1, file, span.Pos)
}

func traceAborted(rd *read, m trace.Mark, from, upper int64, looked int, behind int64) {
	if !rd.tr.On() {
		rd.tr.Brief(m, "aborted", "", int64(len(rd.out.Aborted)))
		return
	}
	var where []string
	if behind >= 0 {
		where = append(where, "the markers in the answer")
	}
	if behind > 0 {
		where = append(where, trace.Bytes(behind)+" behind it")
	}
	if looked > 0 {
		where = append(where, plural(looked, "remote index"))
	}
	if rd.acc.wentLocal || len(where) == 0 {
		where = append(where, "the local indexes")
	}
	detail := fmt.Sprintf("with a marker at or after %d and a begin before %d, from %s", from, upper, enumerated(where))
	rd.tr.Add(m, "aborted", fmt.Sprint(len(rd.out.Aborted)), []trace.Attr{trace.A("aborted", len(rd.out.Aborted)),
		trace.A("remoteIndexes", looked), trace.A("bytesBehind", behind)}, "%s", detail)
}

// enumerated is words as a sentence lists them.
func enumerated(words []string) string {
	last := len(words) - 1
	if last < 1 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:last], ", ") + " and " + words[last]
}

func (r *Reader) traceAnswer(rd *read) {
	if !rd.tr.On() {
		rd.tr.Brief(trace.Mark{}, "answer", rd.out.Code.String(), rd.out.Size())
		return
	}
	size := rd.out.Size()
	attrs := []trace.Attr{trace.A("bytes", size), trace.A("errorCode", int16(rd.out.Code)), trace.A("batches", rd.acc.batches)}
	detail := fmt.Sprintf("%s (%d)", rd.out.Code, rd.out.Code)
	if rd.out.Code == None {
		detail = rd.out.Code.String()
	}
	if size > 0 {
		detail = fmt.Sprintf("%d-%d, %s", rd.acc.firstBase, rd.acc.next-1, detail)
	}
	rd.tr.Add(trace.Mark{}, "answer", trace.Bytes(size), attrs, "%s", detail)
}

func plural(n int, what string) string {
	switch {
	case n == 1:
		return "one " + what
	case strings.HasSuffix(what, "x"):
		return fmt.Sprintf("%d %ses", n, what)
	}
	return fmt.Sprintf("%d %ss", n, what)
}
