// The search engine reads `-`, `:` and other characters in a query as operators: `--hostfile` would exclude the pages that
// contain "hostfile". Readers paste options and names, so their queries are reduced to words before they reach the engine.
{
  // Material's message type for a query.
  const QUERY = 2;

  // Splits as `separator` in mkdocs.yml does. Double quotes remain, because a quoted part must match completely.
  function words(query) {
    return query.replace(/'s\b|[\s\-,:;!?=<>\[\](){}'`/|]+|\.(?!\d)/g, " ");
  }

  window.Worker = class extends window.Worker {
    postMessage(message, ...rest) {
      super.postMessage(message?.type === QUERY ? { ...message, data: words(message.data) } : message, ...rest);
    }
  };
}
