// Browsers refuse workers on pages from file://. There, the worker of the site's search runs in a hidden frame of the
// page instead. Material's plugin `offline` would load such a script from the network.
if (location.protocol === "file:")
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.appendChild(frame);
      this.inside = frame.contentWindow;
      this.waiting = [];
      // What the worker posts goes to the page.
      this.inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      const script = frame.contentDocument.createElement("script");
      script.src = url;
      script.onload = () => {
        for (const data of this.waiting) this.deliver(data);
        this.waiting = null;
      };
      frame.contentDocument.body.appendChild(script);
    }

    postMessage(data) {
      if (this.waiting) this.waiting.push(data);
      else this.deliver(data);
    }

    deliver(data) {
      // After the caller has returned, as a worker would.
      setTimeout(() => this.inside.dispatchEvent(new MessageEvent("message", { data })));
    }

    terminate() {
      this.inside.frameElement.remove();
    }
  };
