// The search engine reads `-`, `:` and other characters in a query as operators: `--hostfile` would exclude the pages that
// contain "hostfile". Readers paste options and names, so a query is reduced to words before it reaches the engine.
{
  // Material's message type for a query.
  const QUERY = 2;

  // Splits as `separator` in mkdocs.yml does. Double quotes remain, because a quoted part must match completely.
  function words(query) {
    const all = query.split(/'s\b|[\s\-,:;!?=<>\[\](){}'`/|]+|\.(?!\d)/).filter((word) => word !== "");
    // A word of one character matches every word that begins with it.
    const long = all.filter((word) => word.length > 1);
    if (long.length === 0) return all.join(" ");
    // The parts of a name, such as `OpBuilder::load`, belong together: a page must contain each of them.
    const name = long.length > 1 && !/[\s"]/.test(query.trim());
    return long.map((word) => (name && /^\w{3,}$/.test(word) ? `+${word}*` : word)).join(" ");
  }

  window.Worker = class extends window.Worker {
    postMessage(message, ...rest) {
      super.postMessage(message?.type === QUERY ? { ...message, data: words(message.data) } : message, ...rest);
    }
  };
}
